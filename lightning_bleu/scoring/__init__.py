"""Statistics → score."""
