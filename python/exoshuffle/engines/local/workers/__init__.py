"""Worker processes of an engine: how they start and end, and how they and the engine talk to each other."""
