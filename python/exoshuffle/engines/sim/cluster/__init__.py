"""What a simulated cluster is made of, and what it costs."""
