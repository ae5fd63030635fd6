"""One validation: sentences → a list of scores, with intervals and comparisons.

It imports ``core``, ``views``, and ``bleu``.
"""
