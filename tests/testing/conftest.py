"""The toys beside these tests can be imported, here and in worker processes."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
