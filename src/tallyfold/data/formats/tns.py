"""FROSTT's .tns: a line per non-zero, its 1-based positions and its value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tallyfold.data.axis import MAX_LABELS, Axis
from tallyfold.data.counts import whole_counts
from tallyfold.data.events import tensor_from_rows
from tallyfold.data.formats.writing import Targets, axes_file, axes_to_bytes, read_axes_file
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import CountError, DataError, FormatError, ShapeError

BLOCK = 1 << 24


class Tns:
    """Read and write FROSTT's text format."""

    has_axes_file = True

    def read(self, file: str, axes: Sequence[str] | None) -> CountTensor:
        """Read positions and counts; labels from the axes beside the file, or 1, 2, 3, ..."""
        numbers = _numbers(file)
        n_axes = numbers.shape[1] - 1
        positions = _positions(file, numbers[:, :n_axes])
        try:
            counts = whole_counts(numbers[:, n_axes], name=f"the counts in {file!r}")
        except CountError as error:
            raise CountError(f"{error} (Rows are numbered from 0, comments left out.)") from None
        built = self._axes(file, axes, positions)
        return tensor_from_rows(built, [positions[:, m] for m in range(n_axes)], counts)

    def write(self, tensor: CountTensor, targets: Targets, value: str) -> None:
        """Write a line per cell; there are no column names, so ``value`` is not used."""
        with pa.output_stream(str(targets.file), compression="detect") as stream:
            for start in range(0, tensor.nnz, 1_000_000):
                stop = start + 1_000_000
                rows = np.column_stack([tensor.indices[start:stop] + 1, tensor.counts[start:stop]])
                lines = "\n".join(" ".join(map(str, row)) for row in rows.tolist())
                stream.write((lines + "\n").encode())
        if targets.axes is not None:
            targets.axes.write_bytes(axes_to_bytes(tensor.axes))

    def _axes(
        self, file: str, names: Sequence[str] | None, positions: npt.NDArray[np.int64]
    ) -> list[Axis]:
        recorded = read_axes_file(file)
        sizes = positions.max(axis=0) + 1
        if recorded is None:
            named = names or [f"axis_{number}" for number in range(len(sizes))]
            _check_number(file, len(named), len(sizes))
            return [Axis.numbered(n, int(s), start=1) for n, s in zip(named, sizes, strict=True)]
        _check_number(str(axes_file(Path(file))), len(recorded), len(sizes))
        if any(size > len(axis) for size, axis in zip(sizes, recorded, strict=True)):
            raise FormatError(
                f"{file!r} has positions beyond the axes recorded beside it. If the file was "
                f"changed, delete {str(axes_file(Path(file)))!r}."
            )
        if names is None:
            return recorded
        _check_number(file, len(names), len(recorded))
        return [axis.renamed(name) for axis, name in zip(recorded, names, strict=True)]


def _check_number(what: str, got: int, wanted: int) -> None:
    if got != wanted:
        raise ShapeError(f"{what!r}: got names for {got} axes; the file has {wanted}.")


def _positions(file: str, numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    whole = (numbers >= 1) & (numbers <= MAX_LABELS) & (numbers == np.floor(numbers))
    if not whole.all():
        rows = np.flatnonzero(~whole.all(axis=1))
        shown = ", ".join(f"row {row}: {numbers[row].tolist()}" for row in rows[:5])
        raise FormatError(
            f"positions in {file!r} must be whole numbers from 1 to {MAX_LABELS:,}; got "
            f"{len(rows):,} rows that are not, {shown}. (Rows are numbered from 0.)"
        )
    return numbers.astype(np.int64) - 1


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
        with pa.input_stream(file, compression="detect") as stream:
            while block := stream.read(BLOCK):
                whole, newline, tail = (rest + block).rpartition(b"\n")
                if newline:
                    yield whole + newline
                rest = tail
    except (OSError, EOFError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise FormatError(f"{file!r} could not be read: {error}") from error
    if rest:
        yield rest
