"""The operations of a dataset as a tree; nothing here runs."""
