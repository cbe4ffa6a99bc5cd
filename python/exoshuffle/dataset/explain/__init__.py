"""What a result will take, before it is made."""
