"""Numbers as people read them: metrics with their unit and direction, durations, counts."""

from __future__ import annotations

import math
import re

from gnas.errors import InputError
from gnas.model.metrics import is_percentage
from gnas.model.task import UNITS, decimals, higher_is_better

SPACE = "\u00a0"  # keeps a number and its unit on one line


def label_metric(metric: str) -> str:
    """The metric's name with its unit, such as ``MAE`` or ``accuracy %``."""
    return UNITS.get(metric, metric)


def describe_direction(metric: str) -> str:
    """``higher is better`` or ``lower is better``."""
    return "higher is better" if higher_is_better(metric) else "lower is better"


def format_metric(metric: str, value: float | None) -> str:
    """A value of the metric, with two decimals for percentages and four for everything else."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:.{decimals(metric)}f}"


def name_metric(metric: str, value: float | None) -> str:
    """The value with the metric's name: ``MAE 0.2760``, ``74.77 % accuracy``."""
    words = label_metric(metric)
    if is_percentage(metric):
        return f"{format_metric(metric, value)}{SPACE}% {words.removesuffix(' %')}"
    return f"{words}{SPACE}{format_metric(metric, value)}"


def format_spread(metric: str, mean: float, std: float, seeds: int) -> str:
    """Mean and standard deviation: ``0.2760 ± 0.0031``. A single seed has the mean only."""
    return format_metric(metric, mean) + (f" ± {format_metric(metric, std)}" if seeds > 1 else "")


def duration(seconds: float | None) -> str:
    """A duration in one or two units: ``0.8 s``, ``2 min 5 s``, ``3 h 20 min``, ``2 d 4 h``."""
    if seconds is None or not math.isfinite(seconds):
        return "–"
    if seconds < 59.5:
        return f"{seconds:.1f}{SPACE}s" if seconds < 9.95 else f"{seconds:.0f}{SPACE}s"
    if seconds < 3599.5:
        return _two(seconds, 60, 1, "min", "s")
    return _two(seconds, 3600, 60, "h", "min") if seconds < 86370 else _two(seconds, 86400, 3600, "d", "h")


def megabytes(number: float) -> str:
    """About how much memory: ``310 MB``, ``2.0 GB``."""
    return f"{number:.0f}{SPACE}MB" if number < 1000 else f"{number / 1024:.1f}{SPACE}GB"


def _two(seconds: float, size: int, rest: int, big: str, small: str) -> str:
    units = int(seconds / rest + 0.5)
    whole, left = divmod(units, size // rest)
    return SPACE.join((str(whole), big, str(left), small) if left else (str(whole), big))


def join_words(words: list[str]) -> str:
    """A list in words: ``a``, ``a and b``, ``a, b and c``."""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + f" and {words[-1]}" if words else ""


def parse_duration(text: str) -> float:
    """Seconds out of a text with units, such as ``90s``, ``10m`` or ``1h30m``; a bare number is seconds.

    >>> parse_duration("1h30m"), parse_duration("90s"), parse_duration("2.5m")
    (5400.0, 90.0, 150.0)
    """
    units = {"d": 86_400, "h": 3600, "m": 60, "s": 1, "": 1}
    cleaned = text.strip().lower()
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([dhms])", cleaned) or re.findall(r"^(\d+(?:\.\d+)?)()$", cleaned)
    used = "".join(f"{number}{unit}" for number, unit in parts)
    seconds = sum(float(number) * units[unit] for number, unit in parts)
    if used != cleaned.replace(" ", "") or not math.isfinite(seconds) or seconds <= 0:
        raise InputError(f"{text!r} is no time; write it as 90s, 10m or 1h30m")
    return float(seconds)
