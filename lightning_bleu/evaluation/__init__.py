"""One validation: what a process does with a batch, and what process 0 does with all sentences.

Data flows through ``input`` (in each process), ``scores``, and ``texts`` (in process 0). ``metrics`` has what scores.
It imports ``core``, ``views``, and ``bleu``.
"""
