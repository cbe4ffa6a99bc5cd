"""The program of each engine that is compared, and what it makes of each shape."""
