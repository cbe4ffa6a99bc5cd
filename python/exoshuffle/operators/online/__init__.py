"""Aggregates with estimates before all rows are read."""
