"""As-of joins: each row meets the nearest row of the other side."""
