"""One program per engine: ``python -m benchmarks.peers.NAME JOB`` does one job and exits.

Guarantee: each program does the whole job and nothing else, in a process of its own. If an engine is not installed, its
program exits with ``NOT_INSTALLED`` and names what is missing.
"""
