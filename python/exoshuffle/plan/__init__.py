"""Decides how much a shuffle does at a time: arithmetic over sizes, costs and resources, without a row or a task."""
