"""Objects in virtual time: their values or sizes, and where they lie."""
