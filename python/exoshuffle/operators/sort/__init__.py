"""Sorting by keys."""
