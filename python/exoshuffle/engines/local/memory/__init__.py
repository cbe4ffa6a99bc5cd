"""Memory that an engine may take: its limit, what libraries and the program take of it, waits that cannot end."""
