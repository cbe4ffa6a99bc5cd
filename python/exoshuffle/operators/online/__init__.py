"""Aggregates that are known about before all rows are read."""
