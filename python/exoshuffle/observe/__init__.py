"""Observes a running program: progress, memory, and what runs when nothing finishes."""
