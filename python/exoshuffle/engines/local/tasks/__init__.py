"""Tasks of an engine: which task runs when, how each attempt ends, and who waits for whom."""
