"""These tests use the terminal of the command line's tests, the data of the loaders' tests and the tiny paper."""

from __future__ import annotations

import sys
from pathlib import Path

for part in ("cli", "datasets", "reproduce"):
    sys.path.append(str(Path(__file__).parents[1] / part))
