"""``python -m amofa``."""

import sys

from amofa.cli import main

if __name__ == "__main__":
    sys.exit(main())
