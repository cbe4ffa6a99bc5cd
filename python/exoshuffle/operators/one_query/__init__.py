"""A group-by and all that it reads (scans, filters, computed columns, joins) as one query of DuckDB."""
