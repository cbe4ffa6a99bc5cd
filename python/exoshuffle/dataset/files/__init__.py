"""Facts from the names of files: their formats, their paths, and where a result goes."""
