"""What an evaluator needs, without Lightning."""
