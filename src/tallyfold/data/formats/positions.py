"""Files of positions and counts, read as a whole: NumPy's .npz and FROSTT's .tns."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tallyfold.data.axis import MAX_LABELS, Axis, listing
from tallyfold.data.cells import MAX_COUNT
from tallyfold.data.events import tensor_from_rows
from tallyfold.data.formats import writing
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import CountError, DataError, FormatError, ParameterError, ShapeError

VERSION = 1
_KEYS = {"tallyfold", "axes", "indices", "counts"}


class Npz:
    """Read and write .npz files of our own making."""

    def read(
        self, file: str, axes: Sequence[str] | None, repeated: str | None = None
    ) -> CountTensor:
        """Read a tensor back; its cells are distinct, so ``repeated`` is not used."""
        if axes is not None:
            raise ParameterError("an .npz file holds its axes: leave `axes` out.")
        try:
            with open(file, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
                if not set(archive.files) >= _KEYS:
                    raise FormatError(
                        f"{file!r} is no tensor written by tallyfold: it must hold "
                        f"{listing(sorted(_KEYS))}; it holds {listing(list(archive.files))}. For "
                        "arrays of other kinds use CountTensor.from_array."
                    )
                version = int(archive["tallyfold"])
                if version > VERSION:
                    raise FormatError(
                        f"{file!r} has version {version} of the format; this tallyfold reads up to "
                        f"{VERSION}. Upgrade tallyfold."
                    )
                recorded = writing.recorded_from_bytes(archive["axes"].tobytes(), file)
                tensor = CountTensor(recorded.axes, archive["indices"], archive["counts"])
                return tensor.with_part(recorded.part)
        except (FileNotFoundError, PermissionError, IsADirectoryError):
            raise
        except (
            OSError, ValueError, EOFError, KeyError, TypeError, AttributeError, MemoryError,
            NotImplementedError, zipfile.BadZipFile, zlib.error, DataError,
        ) as error:  # fmt: skip
            raise FormatError(f"{file!r} is damaged or no .npz file: {str(error)[:400]}") from error

    def write(self, tensor: CountTensor, target: Path, value: str) -> None:
        """Write the arrays; an .npz file has no columns, so ``value`` is not used."""
        np.savez_compressed(
            target,
            tallyfold=np.array(VERSION),
            axes=np.frombuffer(writing.axes_to_bytes(tensor.axes, part=tensor.part), np.uint8),
            indices=tensor.indices,
            counts=tensor.counts,
        )


Numbers = npt.NDArray[np.float64]

RULES: tuple[tuple[type[FormatError | CountError], str], ...] = (
    (FormatError, "every line must hold {} numbers, as the first does"),
    (FormatError, f"positions must be whole numbers from 1 to {MAX_LABELS:,}"),
    (CountError, "counts must be whole numbers from 0 to 2**53 - 1"),
)
"""What every line must keep to, in the order in which it is looked at."""


class Tns:
    """Read and write FROSTT's text format."""

    def read(
        self, file: str, axes: Sequence[str] | None, repeated: str | None = None
    ) -> CountTensor:
        """Read positions and counts; labels from the axes beside the file, or its own numbers."""
        recorded = writing.read_axes_file(file)
        numbers = _numbers(file)
        if not len(numbers) and recorded is None:
            raise DataError(f"{file!r} has no rows; a tensor needs at least one.")
        if not len(numbers) and recorded is not None:  # an empty tensor, written by us
            numbers = np.empty((0, 1 + len(recorded.axes)))
        positions = numbers[:, :-1].astype(np.int64)
        built, codes = _axes(file, recorded and recorded.axes, axes, positions)
        tensor = tensor_from_rows(built, codes, numbers[:, -1].astype(np.int64), repeated)
        return tensor.with_part(recorded.part) if recorded and axes is None else tensor

    def write(self, tensor: CountTensor, target: Path, value: str) -> None:
        """Write a line per cell; there are no column names, so ``value`` is not used."""
        writing.write_tables(_position_tables(tensor), target, ".tns")
        writing.write_axes_file(tensor, target)


def _position_tables(tensor: CountTensor) -> Iterator[pa.Table]:
    for start in range(0, tensor.nnz, writing.ROWS_AT_A_TIME):
        part = slice(start, start + writing.ROWS_AT_A_TIME)
        columns = [*(tensor.indices[part].T + 1), tensor.counts[part]]
        yield pa.table(columns, names=[str(number) for number in range(len(columns))])


def _axes(
    file: str,
    recorded: Sequence[Axis] | None,
    names: Sequence[str] | None,
    positions: npt.NDArray[np.int64],
) -> tuple[Sequence[Axis], list[npt.NDArray[np.int64]]]:
    """Return the axes, and for each the position of every row on it."""
    n_axes = positions.shape[1]
    named = list(names or [f"axis_{number}" for number in range(n_axes)])
    if recorded is None or names is not None:
        _check_number(file, len(named), n_axes)
    if recorded is None:
        found = [np.unique(column, return_inverse=True) for column in positions.T]
        axes = [Axis(name, labels) for name, (labels, _) in zip(named, found, strict=True)]
        return axes, [places for _, places in found]
    _check_number(str(writing.axes_file(Path(file))), len(recorded), n_axes)
    sizes = positions.max(axis=0, initial=0)
    if any(size > len(axis) for size, axis in zip(sizes, recorded, strict=True)):
        raise FormatError(f"{file!r} has positions beyond the axes recorded beside it.")
    if names is not None:
        recorded = [axis.renamed(name) for axis, name in zip(recorded, named, strict=True)]
    return recorded, list((positions - 1).T)


def _check_number(what: str, got: int, wanted: int) -> None:
    if got != wanted:
        raise ShapeError(f"{what!r}: got names for {got} axes; the file has {wanted}.")


def _numbers(file: str) -> Numbers:
    """Read all numbers, a row per line; every line must have as many as the first."""
    import pandas as pd

    try:
        with _opened(file) as stream:
            frame = pd.read_csv(
                stream, sep=r"\s+", header=None, comment="#", dtype=np.float64, quoting=3,
                encoding="latin-1", keep_default_na=False,
            )  # fmt: skip
    except pd.errors.EmptyDataError:
        return np.empty((0, 0))
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except (OSError, EOFError) as error:
        raise FormatError(f"{file!r} could not be read: {error}") from error
    except ValueError as error:  # pandas' errors are of this kind
        raise _fault(file) or FormatError(f"{file!r} could not be read: {error}") from error
    numbers: Numbers = frame.to_numpy()
    if numbers.shape[1] < 3 or not (_placed(numbers).all() and _counted(numbers).all()):
        raise _fault(file) or FormatError(f"{file!r} changed while it was read; try again.")
    return numbers


def _opened(file: str) -> io.BufferedReader:
    return io.BufferedReader(pa.input_stream(file, compression=writing.compression_of(file)))


def _placed(numbers: Numbers) -> npt.NDArray[np.bool_]:
    positions = numbers[:, :-1]
    whole = (positions >= 1) & (positions <= MAX_LABELS) & (positions == np.floor(positions))
    return np.asarray(whole.all(axis=1))


def _counted(numbers: Numbers) -> npt.NDArray[np.bool_]:
    counts = numbers[:, -1]
    return np.asarray((counts >= 0) & (counts <= MAX_COUNT) & (counts == np.floor(counts)))


def _fault(file: str) -> FormatError | CountError | None:
    """Find the lines that are wrong, and name the first five."""
    width, total, shown = 0, Counter[int](), defaultdict[int, list[str]](list)
    with _opened(file) as stream:
        for line, row in enumerate(stream, start=1):
            words = row.partition(b"#")[0].decode(errors="replace").split()
            if not words:
                continue  # a comment, or an empty line
            width, text = width or len(words), " ".join(words)[:60]
            if width < 3:
                return FormatError(
                    f"a line of {file!r} must hold at least two positions and a count; the first "
                    f"is {text!r}."
                )
            rule = _broken_rule(words, width)
            total[rule] += 1
            if total[rule] <= 5:
                shown[rule].append(f"line {line}: {text if rule else repr(text)}")
    for rule, (error, wanted) in enumerate(RULES):
        if total[rule]:
            more = f" and {total[rule] - 5:,} more" if total[rule] > 5 else ""
            return error(
                f"{wanted.format(width)}; {file!r} has {total[rule]:,} lines that do not comply, "
                f"{', '.join(shown[rule])}{more}. Mend or delete those lines."
            )
    return None


def _broken_rule(words: Sequence[str], width: int) -> int:
    """Return which of the rules a line breaks; the number of rules if it breaks none."""
    try:
        row = np.array([[float(word) for word in words]])
    except ValueError:
        return 0
    kept = [row.shape[1] == width, _placed(row)[0], _counted(row)[0], False]
    return kept.index(False)
