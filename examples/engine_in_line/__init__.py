"""The smallest engine: runs every task at once, in line, in the program's own thread.

``python -m examples.engine_in_line`` sorts with it. It passes the parts of the conformance suite that need neither
concurrency nor processes; see docs/writing-an-engine.md.
"""
