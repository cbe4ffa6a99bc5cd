"""The papers' experiments with the engine itself, small enough for two cores and a minute each.

Guarantee: each experiment is one file, runs alone (``python -m benchmarks.experiments.NAME``), and checks the values
that it computes. It prints our figure beside the original's, which is quoted and marked as such, never measured here.
The originals ran on other machines: the shape can be compared (who wins, where it turns), not the seconds.
"""
