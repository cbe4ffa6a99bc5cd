"""Rows of equal keys, or all, brought together as they come."""
