"""Tasks in virtual time: when each runs, where, for how long, and what becomes of it."""
