"""What turns inputs into results, part by part."""
