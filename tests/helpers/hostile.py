"""Files that try to run code, to write elsewhere or to exhaust memory; should one succeed, ``MARK`` appears."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import struct
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

MARK = Path(tempfile.gettempdir()) / "gnas-a-hostile-file-ran-code"
CODE = f"open({str(MARK)!r}, 'w').close()"


class Evil:
    """Whoever unpickles it runs code."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, (CODE,))


def _torch_file(zipped: bool) -> bytes:
    file = io.BytesIO()
    torch.save({"state": Evil()}, file, _use_new_zipfile_serialization=zipped)
    return file.getvalue()


def _npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def _archive(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _header(text: str) -> bytes:
    return len(text).to_bytes(8, "little") + text.encode()


_OBJECTS = np.array([Evil(), 1], dtype=object)
_ARRAY_CODE = f"{{'descr': exec({CODE!r}), 'fortran_order': False, 'shape': (1,)}}\n".encode().ljust(118)
_APPLY = f"!!python/object/apply:builtins.exec [{json.dumps(CODE)}]"
_OUT = _npy(np.zeros(3))

PAYLOADS: dict[str, bytes] = {
    "pickle": pickle.dumps(Evil()),
    "old pickle": pickle.dumps({"a": Evil()}, protocol=0),
    "torch file": _torch_file(True),
    "old torch file": _torch_file(False),
    "object array": _npy(_OBJECTS),
    "npz of objects": _npz(meta=_OBJECTS, format=_OBJECTS, about=_OBJECTS),
    "npz with a pickle": _archive({"meta": pickle.dumps(Evil()), "meta.npy": pickle.dumps(Evil())}),
    "array header of code": _archive({"meta.npy": b"\x93NUMPY\x01\x00v\x00" + _ARRAY_CODE}),
    "paths out of the archive": _archive({"../../escaped.npy": _OUT, "/escaped.npy": _OUT, "meta.npy": _OUT}),
    "zip bomb": _archive({"meta.npy": bytes(100 * 2**20)}),
    "array of petabytes": _archive({"meta.npy": _OUT[:10] + _OUT[10:].replace(b"(3,), }", b"(9" + b"9" * 14 + b",), }")}),
    "yaml object": f"cells: {_APPLY}\n".encode(),
    "yaml name": b"cells: !!python/name:os.system\nGenotype: !!python/module:antigravity\n",
    "yaml new": f"!!python/object/new:type\nargs: [z, !!python/tuple [], {{a: !!python/name:exec }}]\nx: {_APPLY}\n".encode(),
    "yaml bomb": "".join(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 9 if n else 'x'}]\n" for n in range(12)).encode(),
    "code": f"__import__('builtins').exec({CODE!r})\n".encode(),
    "list of code": f"[__import__('builtins').exec({CODE!r})]\n".encode(),
    "json of code": json.dumps({"py/object": "builtins.exec", "__reduce__": ["exec", CODE], "class": "os.system"}).encode(),
    "order to run code": json.dumps(
        {
            "function": "os.system", "folder": "../out", "also": ["/"], "arguments": {"command": f"touch {MARK}"},
            "root": "/", "sync": None, "push_seconds": 1, "device": "cpu", "deterministic": False, "version": "0",
        }
    ).encode(),
    "png of terapixels": b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", struct.pack(">IIBBBBB", 1024, 2**30, 8, 2, 0, 0, 0)),
    "gzip bomb": gzip.compress(bytes(2**26 + 1), 1),
    "deep json": b"[" * 20_000,
    "deep yaml": b"{a: " * 5_000,
    "long header": (2**62).to_bytes(8, "little") + b"{}",
    "header of petabytes": _header('{"a":{"dtype":"F64","shape":[1099511627776,1024],"data_offsets":[0,9007199254740992]}}'),
    "header of code": _header(json.dumps({"__metadata__": {"format": "gnas-checkpoint-1", "state": CODE, "digest": "0"}})),
    "nothing": b"",
    "bytes": bytes(range(256)) * 4,
}  # fmt: skip
