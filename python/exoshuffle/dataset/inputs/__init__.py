"""The inputs of a dataset: files that can be cut, blocks, and rows that are left out."""
