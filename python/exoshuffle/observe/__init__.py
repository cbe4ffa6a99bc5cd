"""Observes a running program: events, progress."""
