"""What DuckDB computes of Arrow data within a task: expressions, and relational kernels."""
