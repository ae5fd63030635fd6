"""Hypotheses and references → the statistics of every sentence."""
