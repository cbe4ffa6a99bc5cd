"""What all operators on tables share: tasks, order of rows, checks, sinks."""
