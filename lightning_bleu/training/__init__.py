"""The logic of the callback, without Lightning."""
