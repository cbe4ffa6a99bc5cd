"""Operators: task sets, which know nothing of scheduling."""
