"""These tests use the terminal of the command line's tests and the data of the loaders' tests."""

from __future__ import annotations

import sys
from pathlib import Path

for part in ("cli", "datasets"):
    sys.path.append(str(Path(__file__).parents[1] / part))
