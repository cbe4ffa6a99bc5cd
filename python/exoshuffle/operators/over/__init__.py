"""Window functions: a value for each row, from the rows of the same keys in an order."""
