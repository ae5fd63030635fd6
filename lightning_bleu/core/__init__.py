"""What a metric needs: options, reading, counting, and scoring.

It imports no other folder. Only ``corpus_metric`` imports torchmetrics.
"""
