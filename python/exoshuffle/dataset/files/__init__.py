"""Files by their names: formats, paths, and where a result goes."""
