"""``python -m magicbyte``: the command line, as the console script runs it."""

from __future__ import annotations

import sys

from magicbyte.cli import main

if __name__ == "__main__":
    sys.exit(main())
