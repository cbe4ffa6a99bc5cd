"""Brings together rows of equal keys, or all rows, as they come."""
