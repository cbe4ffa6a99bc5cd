"""Worker processes of an engine: how they start and end, and what they and the engine say to each other."""
