"""DuckDB's work on Arrow data within a task: expressions, and relational kernels."""
