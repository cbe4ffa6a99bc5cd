"""Programs that show how to extend the library."""
