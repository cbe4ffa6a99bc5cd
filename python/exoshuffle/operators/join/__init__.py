"""Joins of two inputs."""
