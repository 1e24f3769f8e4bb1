"""A CSV or SDF file as columns of cells, with the line or record every row came from. CSV files are read in bulk."""

from __future__ import annotations

import csv
import gzip
import io
import os
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gnas import files
from gnas.data.atoms import MOST_ATOMS
from gnas.data.checks import allowed_memory, check_columns, check_memory
from gnas.data.encoding import Array, format_list
from gnas.data.own.options import ReadOptions
from gnas.data.smiles import import_rdkit
from gnas.errors import InputError, choose
from gnas.printed import format_count

COMMA, NEWLINE = ord(","), ord("\n")
FREE_BYTES = 2**28  # the cells of any table may take so much, every cell at the width of its column's widest
INTEGER_BYTES = np.zeros(256, bool)
INTEGER_BYTES[[0, *b"+-0123456789"]] = True


@dataclass(frozen=True)
class Table:
    """Cells of a CSV file by column, as UTF-8 bytes without surrounding blanks."""

    file: str
    columns: Mapping[str, Array]
    lines: Array  # line number of each row
    unit: str = "line"  # what the numbers count
    target_names: tuple[str, ...] = ()  # columns that the caller passed as targets

    def __len__(self) -> int:
        return len(self.lines)

    def place(self, row: int) -> str:
        return f"{self.file} {self.unit} {self.lines[row]}".strip() if row < len(self.lines) else self.file

    def name_targets(self, level: str, names: Sequence[str]) -> str:
        """Where the targets are, for the description."""
        what = "target" if len(names) == 1 else "targets"
        return f"{level} level: {self.file or 'the table'} has the {what} {', '.join(names)}"

    def size(self) -> str:
        """The file and its number of rows."""
        return f"{self.file} ({format_count(len(self), 'record' if self.unit == 'record' else 'row')})"

    def require(self, *names: str) -> None:
        """An error unless the table has these columns."""
        missing = [n for n in names if n not in self.columns]
        if missing:
            raise InputError(
                f"{self.file}: no column {missing[0]!r}; the columns are: {format_list(list(self.columns))}"
            )

    def ids(self, name: str) -> Array:
        """A column of identifiers: int64 when all are whole numbers, else the texts."""
        cells = self.columns[name]
        empty = cells == b""
        if empty.any():
            raise InputError(f"{self.place(int(empty.argmax()))}: {name} is empty")
        whole = _integers(cells)
        return cells if whole is None else whole

    def values(self, name: str, allow_text: bool = False) -> tuple[Array, Array]:
        """A column as int64, float64 or texts, and which cells are filled.

        ``allow_text`` reads a column of numbers and texts as texts; else it is an error.
        """
        cells = self.columns[name]
        filled = cells != b""
        numbers = np.where(filled, cells, b"0")
        for read in (_integers, _floats):
            typed = read(numbers)
            if typed is not None:
                return typed, filled
        if not allow_text:
            self._check_all_text(name)
        return cells, filled

    def targets(self, names: Sequence[str], allow_text: bool) -> tuple[dict[str, Array], Array | None]:
        """Target columns, and the rows that have a value (None: all). Of several columns, blank numbers become NaN."""
        read = {name: self.values(name, allow_text) for name in names}
        if len(read) > 1 and any(values.dtype.kind == "S" for values, _ in read.values()):
            labelled = np.logical_and.reduce([filled for _, filled in read.values()])
        else:
            labelled = np.logical_or.reduce([filled for _, filled in read.values()]) if read else np.ones(0, bool)
            for name, (values, filled) in read.items() if len(read) > 1 else ():
                read[name] = values if filled.all() else np.where(filled, values, np.nan), filled
        return {name: values for name, (values, _) in read.items()}, None if labelled.all() else labelled

    def features(self, name: str, allow_text: bool = False) -> Array:
        """A column with every cell filled in."""
        values, filled = self.values(name, allow_text)
        if not filled.all():
            raise InputError(f"{self.place(int((~filled).argmax()))}: column {name!r} is empty")
        return values

    def graph_features(self, taken: Sequence[str], options: ReadOptions) -> dict[str, Array]:
        """The columns that ``options`` name, of a table with one row per graph; ``taken`` are columns of another meaning."""
        for name in options.graph_features:
            if options.vocabulary and name not in self.columns:
                where = self.file or "a list of SMILES"
                raise InputError(f"{where}: no column {name!r}, which this network reads; give a table that has it")
            choose(name, [c for c in self.columns if c not in (*taken, *options.reserved)], "feature of graphs")
        return {name: self.numbers(name) for name in options.graph_features}

    def numbers(self, name: str) -> Array:
        """A column of numbers as float64; NaN for an empty cell."""
        values, filled = self.values(name)
        if values.dtype.kind == "S":
            row = int(filled.argmax())
            raise InputError(f"{self.place(row)}: column {name!r} holds {values[row].decode()!r}; numbers are needed")
        return np.where(filled, values.astype(np.float64), np.nan)

    def _check_all_text(self, name: str) -> None:
        # Otherwise one typing error would silently turn a column of numbers into a column of categories.
        cells = self.columns[name].tolist()
        number = {c: _floats(np.array([c])) is not None for c in set(cells) if c}
        if any(number.values()):
            row = next(i for i, c in enumerate(cells) if c and not number[c])
            raise InputError(
                f"{self.place(row)}: column {name!r} holds {cells[row].decode()!r}, not a number like its other cells; "
                f"correct it, or read it as text with the data option categorical={name} (of a target: kind=classification)"
            )


def _integers(cells: Array) -> Array | None:
    if cells.dtype.itemsize > 19 or not INTEGER_BYTES[cells.view(np.uint8)].all():
        return None
    try:
        return cells.astype(np.int64)
    except (ValueError, OverflowError):
        return None


def _floats(cells: Array) -> Array | None:
    if (cells.view(np.uint8) == ord("_")).any():  # Python reads 1_000 as a number, a table does not
        return None
    try:
        return cells.astype(np.float64)
    except ValueError:
        return None


def read_bytes(path: Path) -> bytes:
    """The content of a file; of a ``.gz`` file what was compressed."""
    try:
        if path.suffix.lower() != ".gz":
            return files.read_bytes(path)
        size = path.stat().st_size
        with os.fdopen(files.open_regular(path), "rb") as compressed, gzip.open(compressed) as file:
            data = file.read(allowed_memory(size) + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InputError(f"{path.name}: not a complete gzip file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    check_memory(len(data), size, f"{path.name}: what it unpacks to")
    return data


def read_csv(path: Path) -> Table:
    """Read a comma-separated UTF-8 file with a header line; it may be gzipped."""
    data = _read_bytes(path)
    table = _quoted(path.name, data) if b'"' in data else _plain(path.name, data)
    if b" " in data or b"\t" in data:
        table = Table(table.file, {k: np.char.strip(v) for k, v in table.columns.items()}, table.lines)
    return table


def read_numbers(path: Path, name: str) -> Table:
    """Read rows of numbers without a header; the columns are ``name``, or ``name0``, ``name1``, ... if there are several."""
    data = _read_bytes(path).replace(b" ", b"").replace(b"\t", b"")
    width = data.lstrip(b"\n").partition(b"\n")[0].count(b",") + 1
    header = ",".join([name] if width == 1 else [f"{name}{i}" for i in range(width)])
    table = _plain(path.name, header.encode() + b"\n" + data, first_line=1)
    if not len(table):
        raise InputError(f"{path.name}: no rows")
    return table


def _read_bytes(path: Path) -> bytes:
    """The bytes of a UTF-8 text, with one kind of line end."""
    data = read_bytes(path)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path.name} line {line}: not UTF-8 text; save the file as UTF-8 CSV") from None
    if b"\0" in data:
        raise InputError(f"{path.name}: holds NUL bytes; this is not a CSV text file (UTF-16? save it as UTF-8)")
    return data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _header(file: str, names: list[str]) -> list[str]:
    check_columns(len(names), file)
    names = [n.strip() for n in names]
    if not any(names):
        raise InputError(f"{file}: empty; the first line must name the columns")
    if len(names) == 1 and (";" in names[0] or "\t" in names[0]):
        raise InputError(f"{file}: separate the columns with commas; the header is {names[0]!r}")
    if "" in names:
        at = names.index("") + 1
        raise InputError(f"{file}: column {at} has no name (an index column?); name it in the first line or remove it")
    twice = sorted(name for name, times in Counter(names).items() if times > 1)
    if twice:
        raise InputError(f"{file}: two columns are called {twice[0]!r}")
    return names


def _plain(file: str, data: bytes, first_line: int = 2) -> Table:
    """A file without quotes, where every comma and newline separates: all cells are found at once."""
    first, _, body = data.partition(b"\n")
    names = _header(file, first.decode().split(","))
    if body and not body.endswith(b"\n"):
        body += b"\n"
    buffer = np.frombuffer(body, np.uint8)
    ends = np.flatnonzero((buffer == COMMA) | (buffer == NEWLINE)).astype(np.int32 if len(body) < 2**31 else np.int64)
    starts = np.concatenate([ends[:1] * 0, ends[:-1] + 1])
    last = np.flatnonzero(buffer[ends] == NEWLINE)
    cells = np.diff(last, prepend=-1)
    blank = (cells == 1) & (ends[last] == starts[last])
    ragged = ~blank & (cells != len(names))
    if ragged.any():
        row = int(ragged.argmax())
        raise _ragged(file, row + first_line, int(cells[row]), len(names))
    if blank.any():
        keep = np.repeat(~blank, cells)
        starts, ends = starts[keep], ends[keep]
    step = len(names)
    _check_widths(file, names, (ends - starts).reshape(-1, step).max(0, initial=0), len(ends) // step, len(data))
    columns = {n: _cut(body, buffer, starts[i::step], ends[i::step]) for i, n in enumerate(names)}
    return Table(file, columns, np.flatnonzero(~blank) + first_line)


def _check_widths(file: str, names: Sequence[str], widths: Sequence[int] | Array, rows: int, size: int) -> None:
    """An error if the cells take too much memory, every cell at the width of its column's widest."""
    widest = int(np.argmax(widths))
    about = f"{file}: its cells, up to {int(widths[widest]):,} characters long (column {names[widest][:80]!r}),"
    check_memory(int(np.sum(widths, dtype=np.int64)) * rows, size, about, FREE_BYTES)


def _cut(body: bytes, buffer: Array, starts: Array, ends: Array) -> Array:
    lengths = ends - starts
    width = int(lengths.max()) if len(lengths) else 1
    if width > 32:
        return np.array([body[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)], dtype=f"S{width}")
    matrix = np.zeros((len(starts), max(width, 1)), np.uint8)
    for i in range(width):
        rows = np.flatnonzero(lengths > i)
        matrix[rows, i] = buffer[starts[rows] + i]
    return matrix.view(f"S{matrix.shape[1]}")[:, 0]


def _quoted(file: str, data: bytes) -> Table:
    reader = csv.reader(io.StringIO(data.decode()), strict=True)
    rows, lines = [], []
    try:
        names = _header(file, next(reader, []))
        for row in reader:
            if row:
                if len(row) != len(names):
                    raise _ragged(file, reader.line_num, len(row), len(names))
                rows.append(row)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise InputError(f"{file} line {reader.line_num}: {error}") from None
    cells = list(zip(*rows, strict=True)) or [()] * len(names)
    _check_widths(file, names, [max(map(len, column), default=0) for column in cells], len(rows), len(data))
    columns = {n: np.array([c.encode() for c in cells[i]] or [], dtype=np.bytes_) for i, n in enumerate(names)}
    return Table(file, columns, np.array(lines, np.int64))


def _ragged(file: str, line: int, found: int, expected: int) -> InputError:
    return InputError(f"{file} line {line}: {found} cells, but the first line has {expected}")


# -- SDF files -----------------------------------------------------------------------------------------------------


def read_sdf(path: Path) -> Table:
    """The molecules of an SDF as SMILES, their properties as columns; a record that rdkit cannot read is empty."""
    chem = import_rdkit()
    data = read_bytes(path)
    records: list[dict[str, str]] = []
    try:
        for molecule in chem.ForwardSDMolSupplier(io.BytesIO(data)):
            if molecule is None or molecule.GetNumAtoms() > MOST_ATOMS:
                records.append({})
                continue
            properties = {name.strip(): molecule.GetProp(name).strip() for name in molecule.GetPropNames()}
            records.append({**properties, "smiles": chem.MolToSmiles(molecule)})
    except (ValueError, RuntimeError, UnicodeDecodeError) as error:
        raise InputError(f"{path.name} record {len(records) + 1}: {str(error).splitlines()[0]}") from None
    names = {"smiles": 0}  # and the width of its longest text
    for record in records:
        names.update((name, max(names.get(name, 0), len(text))) for name, text in record.items())
    check_columns(len(names), path.name)
    needed = sum(8 + width for width in names.values()) * len(records)
    check_memory(needed, len(data), f"{path.name}: its properties")
    columns = {name: to_cells([record.get(name) for record in records]) for name in names}
    return Table(path.name, columns, np.arange(1, len(records) + 1), "record")


def to_cells(values: Sequence[Any]) -> Array:
    """Values as cells of a CSV; None and NaN are empty."""
    return np.array([_cell(value) for value in values] or [], np.bytes_)


def _cell(value: Any) -> bytes:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # pandas.NA cannot be compared
        return b""
    if isinstance(value, float | np.floating) and value != value:
        return b""
    if isinstance(value, bool | np.bool_):
        value = int(value)
    return str(value).strip().encode(errors="replace")
