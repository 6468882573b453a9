"""`python -m core_rl` is `core-rl`."""

from __future__ import annotations

import sys

from core_rl.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
