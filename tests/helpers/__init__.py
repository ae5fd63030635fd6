"""What several test modules need: corpora, toy modules and trainers, processes."""
