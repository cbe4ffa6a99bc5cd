"""The papers' experiments with the engine itself, small enough for two cores and a minute each.

Guarantee: each experiment is one file, runs alone (``python -m benchmarks.experiments.NAME``), checks the values that
it computes, and prints our figure beside the original's, which is quoted and marked as such, never measured here. The
originals ran on other machines: what can be compared is the shape (who wins, where it turns), not the seconds.
"""
