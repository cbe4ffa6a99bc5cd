"""The lazy dataset.

Nothing is imported here: worker processes need a few modules of this package, and ``names`` has those of programs.
"""
