"""Engines: who runs the tasks."""
