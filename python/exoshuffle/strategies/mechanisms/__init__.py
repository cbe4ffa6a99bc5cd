"""The mechanisms that strategies share: merges, reduces, speculation and best-effort merges."""
