"""What a dataset is to do, as a tree; nothing here runs."""
