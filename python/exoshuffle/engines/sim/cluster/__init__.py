"""The parts of a simulated cluster, and their prices."""
