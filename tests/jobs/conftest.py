"""One reference that all ways of doing jobs are held to."""

from __future__ import annotations

from pathlib import Path

import pytest
from farm import train_all


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trainings in this process, without jobs."""
    folder = tmp_path_factory.mktemp("reference")
    train_all(folder)
    return folder
