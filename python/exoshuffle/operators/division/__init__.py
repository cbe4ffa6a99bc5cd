"""What becomes of a partition that is larger than planned."""
