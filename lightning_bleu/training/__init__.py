"""What a callback needs, without Lightning."""
