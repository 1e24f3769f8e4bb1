"""Texts that leave this process: secrets are masked, control characters cannot move a terminal's cursor, nouns agree."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote

MASK = "***"
# scheme://name:password@host: everything before the last @ of the address. A password may hold a slash.
_LOGIN = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]*://)(?P<login>[^\s'\"\\<>|]*)@")
_WORD = r"(?:[\w.-]*(?:pass|secret|token|signature|credential|api_?key|access_?key|account_?key|auth|sig|pwd)[\w.-]*|key|pw)"
_PARAMETER = re.compile(rf"(?P<name>[?&;#]{_WORD}=)[^\s&;#'\"\\<>|]+", re.IGNORECASE)
# What trackers and storage read from the environment, and may quote in an error.
_VARIABLES = (
    *("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN", "WANDB_API_KEY"),
    *("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN"),
)
_REMEMBERED: set[str] = set()  # passwords of addresses that this process uses, and their parts
# Control characters but tabs and new lines, and marks that change the direction of a text.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def mask_secrets(text: str) -> str:
    """The text with names, passwords and keys in addresses replaced by ``***``.

    >>> mask_secrets("s3://me:secret@bucket/run, https://host/run?token=abc&page=2")
    's3://***@bucket/run, https://host/run?token=***&page=2'
    """
    if "://" in text:
        text = _LOGIN.sub(rf"\g<scheme>{MASK}@", text)
        text = _PARAMETER.sub(rf"\g<name>{MASK}", text)
    for value in (*(os.environ.get(name, "") for name in _VARIABLES), *sorted(_REMEMBERED, key=len, reverse=True)):
        if len(value) >= 6:  # a shorter one may be any word
            text = text.replace(value, MASK)
    return text


def mask_address(url: str) -> str:
    """The same for a text that is an address or no address at all: its password may hold spaces and quotes.

    >>> mask_address("ftp://me:a b@host/run")
    'ftp://***@host/run'
    """
    scheme, _, rest = url.partition("://")
    _, login, host = rest.rpartition("@")
    return mask_secrets(f"{scheme}://{MASK}@{host}" if login else url)


def remember_secrets(url: str) -> None:
    """Mask the password of this address from now on, also where a library quotes a part of it.

    As in :func:`mask_address`, it may hold spaces and quotes. A text that is no address changes nothing.
    """
    login = url.partition("://")[2].rpartition("@")[0]
    password = login.partition(":")[2]
    _REMEMBERED.update({password, unquote(password), *re.split(r"[/?#:]", password)})


def escape_controls(text: str) -> str:
    """The text with control characters written out, such as ``\\x1b``; tabs and new lines stay.

    >>> escape_controls("name" + chr(27) + "[2J")
    'name\\\\x1b[2J'
    """
    return _CONTROLS.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def to_printable(text: str) -> str:
    """The text without secrets and control characters, for a terminal or a log."""
    return escape_controls(mask_secrets(text))


def format_count(count: int, noun: str) -> str:
    """A number with its noun: ``1 row``, ``2 rows``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
