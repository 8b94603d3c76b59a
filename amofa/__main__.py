"""``python -m amofa``."""

import sys

from amofa.cli import main

sys.exit(main())
