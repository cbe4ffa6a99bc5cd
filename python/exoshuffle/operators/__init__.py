"""What to shuffle by: task sets, which know nothing of scheduling."""
