"""The choices of the user: options, conventions, and choices by name."""
