"""The published graphs through PyG's own dataset classes, as a last resort before a generator."""

from __future__ import annotations

import contextlib
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from gnas.data.benchmarks.catalogue import SPLITS
from gnas.data.sources import Options
from gnas.errors import InputError

if TYPE_CHECKING:
    from torch_geometric.data import Data

Fetch = Callable[[str, str, Path], "Iterable[Data]"]  # name, split, folder


def allowed(root: Path, options: Options) -> bool:
    """Whether a download may be tried at all."""
    return options.download


def download(name: str, fetch: Fetch | None = None) -> dict[str, list[Data]]:
    """The three splits as PyG graphs; one error line whatever went wrong."""
    fetch = fetch or fetch_with_pyg
    try:
        with tempfile.TemporaryDirectory(prefix="gnas-") as folder:
            return {split: list(fetch(name, split, Path(folder))) for split in SPLITS}
    except Exception as error:  # PyG, its file layer and the network raise dozens of kinds
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"cannot download {name}: {reason[:160]}") from None


def fetch_with_pyg(name: str, split: str, folder: Path) -> Iterable[Data]:
    """One split through ``ZINC`` or ``GNNBenchmarkDataset``."""
    from torch_geometric.datasets import ZINC, GNNBenchmarkDataset

    if name == "zinc":
        _reach(ZINC.url)
        return ZINC(str(folder), subset=True, split=split)
    _reach(GNNBenchmarkDataset.urls[name.upper()])
    return GNNBenchmarkDataset(str(folder), name.upper(), split=split)


def _reach(url: str, seconds: float = 5.0) -> None:
    """Fail soon without a network: PyG's own download waits for minutes."""
    request = urllib.request.Request(url, method="HEAD")
    with contextlib.suppress(urllib.error.HTTPError):  # an answer, if not a kind one: the host is there
        urllib.request.urlopen(request, timeout=seconds).close()
