"""What happens while a program runs: events, progress."""
