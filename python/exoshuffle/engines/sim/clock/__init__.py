"""Virtual time: events, shared bandwidth, and functions that run in between."""
