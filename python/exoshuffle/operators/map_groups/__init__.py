"""Calls functions of users for each group of rows."""
