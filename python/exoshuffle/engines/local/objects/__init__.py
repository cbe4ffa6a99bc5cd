"""Objects of an engine: their states and values, their references, and how lost objects are made again."""
