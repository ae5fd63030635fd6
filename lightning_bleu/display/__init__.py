"""Scores → charts, figures, and tables of sample sentences, and the loggers that show them."""
