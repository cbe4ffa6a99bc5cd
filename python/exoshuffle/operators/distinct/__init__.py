"""Rows without duplicates."""
