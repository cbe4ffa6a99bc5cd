"""Cuts rows into other partitions: in turn, by hash, by range, by folders."""
