"""Jobs, which turn inputs into results, part by part."""
