"""Tasks of an engine: who runs when, what becomes of each attempt, and who waits for whom."""
