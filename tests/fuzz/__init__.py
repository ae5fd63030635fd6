"""Fuzzing: random inputs in every form, counted by the package and by slow, obvious code, until the time is up.

Run it with ``make fuzz SECONDS=60``. The targets are listed in :mod:`tests.fuzz.targets`.
"""
