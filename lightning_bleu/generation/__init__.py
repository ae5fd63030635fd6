"""The batches of a Trainer: what a decoder-only model generates from, with which arguments, and what may go wrong."""
