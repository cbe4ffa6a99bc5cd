"""The work on a partition that is larger than planned."""
