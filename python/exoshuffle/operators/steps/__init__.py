"""What is done to batches on their way, without a shuffle."""
