"""Finished systems and recorded runs, in Python and as the command ``lightning-bleu``.

A leaf: it imports everything but ``hugging_face``, and nothing imports it. Metrics of ``tasks`` are imported by name
when they are used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
