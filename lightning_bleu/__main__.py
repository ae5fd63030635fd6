"""``python -m lightning_bleu`` is the command ``lightning-bleu``."""

import sys

from lightning_bleu.compare.command import main

if __name__ == "__main__":
    sys.exit(main())
