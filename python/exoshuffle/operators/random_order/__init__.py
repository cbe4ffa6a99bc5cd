"""Uniformly random orders."""
