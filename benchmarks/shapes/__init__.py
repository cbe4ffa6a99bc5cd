"""Many shapes of data and queries, small and large: Exoshuffle beside DuckDB, Polars and Daft. See ``__main__``."""
