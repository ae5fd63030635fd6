"""What is done with a validation that has been scored: results, samples, figures, charts, loggers, and files.

It imports ``core``, ``views``, ``evaluation``, and ``bleu``.
"""
