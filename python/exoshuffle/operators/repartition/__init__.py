"""Other partitions: in turn, by hash, by range, by folders."""
