"""FROSTT's .tns: a line per non-zero, its 1-based positions and its value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tallyfold.data.axis import MAX_LABELS, Axis
from tallyfold.data.counts import MAX_COUNT
from tallyfold.data.events import tensor_from_rows
from tallyfold.data.formats.writing import (
    Targets,
    axes_file,
    compression_of,
    read_axes_file,
    write_axes_file,
)
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import CountError, DataError, FormatError, ShapeError

BLOCK = 1 << 24


class Tns:
    """Read and write FROSTT's text format."""

    has_axes_file = True

    def read(self, file: str, axes: Sequence[str] | None, repeated: str = "sum") -> CountTensor:
        """Read positions and counts; labels from the axes beside the file, or its own numbers."""
        numbers = _numbers(file)
        n_axes = numbers.shape[1] - 1
        _check_numbers(file, numbers)
        positions = numbers[:, :n_axes].astype(np.int64)
        counts = numbers[:, n_axes].astype(np.int64)
        built, codes = self._axes(file, axes, positions)
        return tensor_from_rows(built, codes, counts, repeated)

    def write(self, tensor: CountTensor, targets: Targets, value: str) -> None:
        """Write a line per cell; there are no column names, so ``value`` is not used."""
        with pa.output_stream(
            str(targets.file), compression=compression_of(targets.file.name)
        ) as stream:
            for start in range(0, tensor.nnz, 1_000_000):
                stop = start + 1_000_000
                rows = np.column_stack([tensor.indices[start:stop] + 1, tensor.counts[start:stop]])
                lines = "\n".join(" ".join(map(str, row)) for row in rows.tolist())
                stream.write((lines + "\n").encode())
        write_axes_file(tensor.axes, targets)

    def _axes(
        self, file: str, names: Sequence[str] | None, positions: npt.NDArray[np.int64]
    ) -> tuple[list[Axis], list[npt.NDArray[np.int64]]]:
        """Return the axes, and for each the place of every row on it."""
        recorded = read_axes_file(file)
        n_axes = positions.shape[1]
        named = list(names or [f"axis_{number}" for number in range(n_axes)])
        if recorded is None:
            _check_number(file, len(named), n_axes)
            found = [np.unique(column, return_inverse=True) for column in positions.T]
            axes = [Axis(name, labels) for name, (labels, _) in zip(named, found, strict=True)]
            return axes, [places for _, places in found]
        _check_number(str(axes_file(Path(file))), len(recorded), n_axes)
        sizes = positions.max(axis=0, initial=0)
        if any(size > len(axis) for size, axis in zip(sizes, recorded, strict=True)):
            raise FormatError(f"{file!r} has positions beyond the axes recorded beside it.")
        if names is not None:
            _check_number(file, len(named), n_axes)
            recorded = [axis.renamed(name) for axis, name in zip(recorded, named, strict=True)]
        return recorded, list((positions - 1).T)


def _check_number(what: str, got: int, wanted: int) -> None:
    if got != wanted:
        raise ShapeError(f"{what!r}: got names for {got} axes; the file has {wanted}.")


def _check_numbers(file: str, numbers: npt.NDArray[np.float64]) -> None:
    """Refuse positions and counts that are none, naming the first five lines."""
    places, counts = numbers[:, :-1], numbers[:, -1]
    placed = (places >= 1) & (places <= MAX_LABELS) & (places == np.floor(places))
    _refuse(
        file,
        ~placed.all(axis=1),
        numbers,
        FormatError,
        f"positions must be whole numbers from 1 to {MAX_LABELS:,}",
    )
    counted = (counts >= 0) & (counts <= MAX_COUNT) & (counts == np.floor(counts))
    _refuse(file, ~counted, numbers, CountError, "counts must be whole numbers from 0 to 2**53 - 1")


def _refuse(
    file: str,
    bad_N: npt.NDArray[np.bool_],
    numbers: npt.NDArray[np.float64],
    kind: type[FormatError] | type[CountError],
    wanted: str,
) -> None:
    if not bad_N.any():
        return
    rows = np.flatnonzero(bad_N)
    lines = _lines_of(file, rows[:5].tolist())
    shown = ", ".join(
        f"line {line}: {' '.join(f'{number:.17g}' for number in numbers[row])}"
        for line, row in zip(lines, rows[:5], strict=True)
    )
    more = f" and {len(rows) - 5:,} more" if len(rows) > 5 else ""
    raise kind(f"{wanted}; {file!r} has {len(rows):,} lines that do not comply, {shown}{more}.")


def _lines_of(file: str, rows: list[int]) -> list[int]:
    """Return the lines on which rows stand; comments and empty lines are no rows."""
    found, row, line = {}, -1, 0
    for block in _blocks(file):
        for text in block.split(b"\n")[: block.count(b"\n") or None]:
            line += 1
            if _data_lines(text):
                row += 1
                found[row] = line
        if row >= rows[-1]:
            break
    return [found[row] for row in rows]


def _numbers(file: str) -> npt.NDArray[np.float64]:
    """Read all numbers, block by block; every line must have as many as the first."""
    parts: list[npt.NDArray[np.float64]] = []
    width, first_line = 0, 1
    for block in _blocks(file):
        lines = _data_lines(block)
        if lines and not width:
            width = len(lines[0].split())
            if width < 3:
                raise FormatError(
                    f"a line of {file!r} must hold at least two positions and a count; the first "
                    f"is {lines[0][:60].decode(errors='replace')!r}."
                )
        if lines:
            parts.append(_parsed_block(file, block, lines, width, first_line))
        first_line += block.count(b"\n")
    if not parts and axes_file(Path(file)).exists():  # an empty tensor, written by us
        return np.empty((0, 1 + len(read_axes_file(file) or [])))
    if not parts:
        raise DataError(f"{file!r} has no rows; a tensor needs at least one.")
    return np.concatenate(parts)


def _data_lines(block: bytes) -> list[bytes]:
    lines = [line for line in block.split(b"\n") if line.strip()]
    return [line for line in lines if not line.lstrip().startswith(b"#")]


def _parsed_block(
    file: str, block: bytes, lines: list[bytes], width: int, first_line: int
) -> npt.NDArray[np.float64]:
    try:
        numbers = np.array(b" ".join(lines).split(), dtype=np.float64)
        if len(numbers) == len(lines) * width and all(len(li.split()) == width for li in lines):
            return numbers.reshape(-1, width)
    except ValueError:
        pass
    raise _malformed(file, block, width, first_line)


def _malformed(file: str, block: bytes, width: int, first_line: int) -> FormatError:
    """Find the lines that are wrong, and name the first five."""
    bad: list[str] = []
    for number, line in enumerate(block.split(b"\n"), start=first_line):
        if _data_lines(line) and not _is_row(line, width):
            bad.append(f"line {number}: {line[:60].decode(errors='replace')!r}")
    more = f" and {len(bad) - 5:,} more" if len(bad) > 5 else ""
    return FormatError(
        f"every line of {file!r} must hold {width} numbers, as its first does; got "
        f"{', '.join(bad[:5])}{more}. Mend or delete those lines."
    )


def _is_row(line: bytes, width: int) -> bool:
    try:
        return len([float(word) for word in line.split()]) == width
    except ValueError:
        return False


def _blocks(file: str) -> Iterator[bytes]:
    """Read a file in blocks of whole lines, unpacking .gz and .zst."""
    rest = b""
    try:
        stream: Any
        with pa.input_stream(file, compression=compression_of(file)) as stream:
            while block := stream.read(BLOCK):
                whole, newline, tail = (rest + block).rpartition(b"\n")
                if newline:
                    yield whole + newline
                rest = tail
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except (OSError, EOFError) as error:
        raise FormatError(f"{file!r} could not be read: {error}") from error
    if rest:
        yield rest
