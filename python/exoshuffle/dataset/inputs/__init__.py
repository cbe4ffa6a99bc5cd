"""What is read: files that can be cut, blocks, rows that are left out."""
