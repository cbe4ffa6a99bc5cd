"""One program per engine: ``python -m benchmarks.peers.NAME JOB`` does one job and exits.

Guarantee: each program does the whole job and nothing else, in a process of its own. An engine that is not installed
exits with ``NOT_INSTALLED`` and says what is missing.
"""
