"""The first rows of a sort."""
