"""Memory that an engine may take: its limit, the parts that libraries and the program take, waits that cannot end."""
