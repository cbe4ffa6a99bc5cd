"""The common base of all operators on tables: tasks, order of rows, checks, sinks."""
