"""Groups of equal keys: aggregates, and functions of users."""
