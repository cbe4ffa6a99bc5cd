"""One iteration over rows that several consumers share: threads, processes or actors, each with a part of each step."""
