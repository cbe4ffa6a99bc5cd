"""Simulated shuffles: scenarios, their runs, and reports of them."""
