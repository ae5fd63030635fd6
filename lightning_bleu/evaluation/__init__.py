"""One validation: whose sentences count for which score, and what the scores are."""
