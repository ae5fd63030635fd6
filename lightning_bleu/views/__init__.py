"""What there is to see, as blocks, and what makes text, HTML, and Markdown of them. It imports ``core``."""
