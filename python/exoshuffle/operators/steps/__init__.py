"""Steps: work on batches on their way, without a shuffle."""
