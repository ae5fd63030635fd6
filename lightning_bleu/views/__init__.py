"""What there is to see, as blocks, and what makes text and HTML of them. It imports ``core``."""
