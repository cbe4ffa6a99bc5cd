"""Functions of users for each group of rows."""
