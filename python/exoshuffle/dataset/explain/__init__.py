"""The bill of a result, before it is made."""
