"""Objects of an engine: their states and values, who refers to them, and how lost ones are made again."""
