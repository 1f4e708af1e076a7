"""From paths to the format that reads or writes them: tensors, or tables row by row."""

from __future__ import annotations

import glob
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tallyfold.data.axis import Axis, listing
from tallyfold.data.axis_order import Ordered
from tallyfold.data.declared_order import checked_ordered, with_order
from tallyfold.data.formats.packed import check_packed
from tallyfold.data.formats.positions import Npz, Tns
from tallyfold.data.formats.sql import connected, duckdb_errors
from tallyfold.data.formats.table import (
    Delimited,
    JsonLines,
    Parquet,
    TableFormat,
    read_own_table,
    read_table,
    shown_files,
)
from tallyfold.data.formats.writing import COMPRESSIONS, label_tables, write_tables, written_whole
from tallyfold.data.labels import columns_for
from tallyfold.data.request import Request, check_choices, check_columns
from tallyfold.data.tensor import Bad, CountTensor, Missing, Repeated
from tallyfold.data.time_units import Bins
from tallyfold.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from tallyfold.data.store.reading import Store

FORMATS: dict[str, TableFormat | Npz | Tns] = {
    ".parquet": Parquet(),
    ".csv": Delimited(","),
    ".tsv": Delimited("\t"),
    ".jsonl": JsonLines(),
    ".ndjson": JsonLines(),
    ".tns": Tns(),
    ".npz": Npz(),
}
"""File endings and the formats that read and write them."""

WRITTEN = (".parquet", ".csv", ".tsv", ".jsonl", ".ndjson")
ROWS_AT_A_TIME = 50_000

PathLike = str | os.PathLike[str]


def read_counts(
    path: PathLike | Sequence[PathLike] | Store,
    axes: Sequence[str | Axis] | None = None,
    value: str | EllipsisType | None = ...,
    *,
    repeated: Repeated | None = None,
    missing: Missing = "error",
    bad: Bad = "error",
    bins: Bins | None = None,
    tz: str | None = None,
    ordered: Ordered | None = None,
    min_nonzeros: Mapping[str, int] | None = None,
    top: Mapping[str, int] | None = None,
    delimiter: str | None = None,
    memory_limit: str | None = None,
) -> CountTensor:
    r"""Read counts, or count events, from one or many files.

    Tables (Parquet, CSV, TSV, JSON lines; text also as .gz or .zst) are grouped by DuckDB, which
    spills to disk, so that only the counts have to fit in memory, not the events.

    Parameters
    ----------
    path
        A file, a folder, a pattern such as ``"logs/*.parquet"``, or a list of these; or a store
        (its folder, or what `open_store` returns), which is read whole.
    axes
        The columns whose labels make up the axes, in order. Leave it out to read back a file
        that `write_counts` made, with its labels, their order and types. For ``.tns`` files,
        which have no column names, it names the axes. An axis, such as those of ``model.axes_``,
        stands for its column, and times are cut as its were.
    value
        The column that holds the counts; None counts rows. It may be left out where there is no
        column called ``"count"``.
    repeated, missing, bad, bins, tz, ordered, min_nonzeros, top
        As in `CountTensor.from_frame`. The last row is that of the last file, in the order in which
        files are named; those of a folder or a pattern are sorted by name.
    delimiter
        What separates the columns of a CSV file, if not a comma (or a tab, for TSV).
    memory_limit
        How much memory grouping may use before it spills to disk, such as ``"2GB"``.

    Notes
    -----
    In text files a column of labels becomes integers or dates only if every label is written just
    as that number or date would be: ``007`` stays text.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "events.csv"
    >>> _ = file.write_text("who,what\nann,call\nbob,mail\nann,call\n")
    >>> read_counts(file, axes=["who", "what"])
    CountTensor(who 2 x what 2; 2 non-zeros, density 50 %, total 3; counts 1: 50 %, 2: 50 %)
    """
    check_choices(repeated, missing, bad)
    asked = {k: None if v == "error" else v for k, v in {"missing": missing, "bad": bad}.items()}
    if (store := _store_at(path)) is not None:
        given = {"bins": bins, "tz": tz, "delimiter": delimiter, "memory_limit": memory_limit}
        given |= {"value": None if value is ... else value, **asked}
        _check_whole_file([str(store.folder)], "a store", given)
        _check_axes_of_store(store, axes)
        binned = [axis.name for axis in store.axes if axis.unit is not None]
        tensor = with_order(store.tensor(), checked_ordered(ordered, store.names, binned))
        return tensor.filter(min_nonzeros=min_nonzeros, top=top)
    files, ending = resolved_files(path)  # type: ignore[arg-type]  # stores have been read
    form = FORMATS[ending]
    if isinstance(form, Npz | Tns):
        given = {"bins": bins, "tz": tz, "delimiter": delimiter, "memory_limit": memory_limit}
        given |= {"value": None if value is ... else value, **asked}
        _check_whole_file(files, ending, given)
        named = _names(axes or ()) or None
        tensor = form.read(files[0], named, repeated)
    else:
        form = _with_delimiter(form, delimiter)
        if axes is None:
            _check_whole_file(files, ending, {"bins": bins, "tz": tz, **asked})
            tensor = read_own_table(form, files[0], memory_limit)
        else:
            request = Request.checked(axes, value, bins, repeated, missing, bad, tz, ordered)
            tensor = read_table(form, files, request, memory_limit)
    if not isinstance(form, TableFormat) or axes is None:
        binned = [axis.name for axis in tensor.axes if axis.unit is not None]
        tensor = with_order(tensor, checked_ordered(ordered, tensor.names, binned))
    return tensor.filter(min_nonzeros=min_nonzeros, top=top)


def _store_at(path: Any) -> Store | None:
    """Return the store that a path, or a list of it alone, names; None if it names none."""
    from tallyfold.data.store.manifest import is_store
    from tallyfold.data.store.reading import Store, open_store

    if isinstance(path, Store):
        return path
    if isinstance(path, list | tuple) and len(path) == 1:
        path = path[0]
    return open_store(path) if is_store(path) else None


def _check_axes_of_store(store: Store, axes: Sequence[str | Axis] | None) -> None:
    """Refuse other axes than those that a store has."""
    asked = None if axes is None else [getattr(axis, "name", axis) for axis in axes]
    if asked is not None and asked != list(store.names):
        raise ParameterError(
            f"`axes` of a store are its own, {listing(list(store.names), 20)}; got "
            f"{listing(asked, 20)}. Leave them out, or write a store with the others."
        )


def form_of(files: list[str], delimiter: str | None) -> TableFormat | Npz | Tns:
    """Return the format of files of one kind."""
    form = FORMATS[ending_of(Path(files[0]))]
    return form if isinstance(form, Npz | Tns) else _with_delimiter(form, delimiter)


def write_counts(tensor: CountTensor, path: PathLike, *, value: str = "count") -> None:
    """Write a tensor to a file of the kind its ending says.

    Parquet and ``.npz`` files hold the axes (labels, their order and types) inside. Text files
    (CSV, TSV, JSON lines, ``.tns``) are plain, and get a second file ``NAME.axes`` beside them
    that holds the axes; without it they are read like any other table. A file is written whole or
    not at all.

    Parameters
    ----------
    tensor
        What to write.
    path
        Where to; the ending chooses the format: .parquet, .csv, .tsv, .jsonl, .ndjson, .tns (text
        also with .gz or .zst), .npz.
    value
        What to call the column of counts.
    """
    file = Path(path)
    form = FORMATS[ending_of(file)]
    lowered = [name.lower() for name in (*tensor.names, value)]
    if len(set(lowered)) < len(lowered) and not isinstance(form, Npz | Tns):
        raise ParameterError(
            "`value` must differ from the axes, and they from each other, not only in case; got "
            f"{listing([*tensor.names, value], 20)}."
        )
    if not file.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(file.parent)!r} to write to.")
    with written_whole(file) as target:
        form.write(tensor, target, value)


def resolved_files(path: PathLike | Sequence[PathLike]) -> tuple[list[str], str]:
    """Return the files that a path, folder, pattern or list of these means, and their ending."""
    asked = list(path) if isinstance(path, Sequence) and not isinstance(path, str) else [path]
    if not all(isinstance(one, str | os.PathLike) for one in asked):
        raise ParameterError(f"`path` must be a path or a list of paths; got {path!r}.")
    files = [file for one in asked for file in _files_of(os.path.expanduser(os.fspath(one)))]
    if not files:
        raise ParameterError("`path` must name at least one file; got an empty list.")
    distinct = {os.path.realpath(file) for file in files}
    if len(distinct) < len(files):
        raise ParameterError(
            f"`path` must name each file once; {len(files):,} are named, {len(distinct):,} are "
            "different."
        )
    endings = {ending_of(Path(file)) for file in files}
    if len(endings) > 1:
        raise FormatError(
            f"files read together must be of one kind; got {listing(sorted(endings))}."
        )
    return files, endings.pop()


def ending_of(file: Path) -> str:
    """Return the ending that says a file's format, leaving out one that says its compression."""
    ending = file.suffix.lower()
    if ending in COMPRESSIONS:
        ending = Path(file.stem).suffix.lower()
        if ending in (".parquet", ".npz"):
            raise FormatError(
                f"{str(file)!r} looks like a compressed {ending} file; those are compressed inside "
                "already. Unpack it first."
            )
    if ending not in FORMATS:
        raise FormatError(
            f"the ending of {file.name!r} must be one of {', '.join(FORMATS)} (text also with "
            f"{' or '.join(COMPRESSIONS)}); got {file.suffix!r}. Save it as one of "
            "these, or rename it."
        )
    return ending


def _files_of(path: str) -> list[str]:
    if os.path.isdir(path):
        from tallyfold.data.store.manifest import is_store

        if is_store(path):
            raise FormatError(
                f"{path!r} is a store of counts, which is read by itself: name it alone, not in a "
                "list or a pattern."
            )
        files = sorted(str(file) for file in Path(path).rglob("*") if _is_known(file, path))
        if not files:
            raise FileNotFoundError(f"folder {path!r} holds no file of a kind that can be read.")
        return files
    if os.path.isfile(path):
        return [path]
    if os.path.exists(path):
        raise FormatError(
            f"{path!r} is a pipe or a device; a table is read more than once. Save it as a file "
            "first; the command line reads CSV from standard input if it is named '-'."
        )
    files = sorted(glob.glob(path, recursive=True))
    if not files:
        pattern = any(sign in path for sign in "*?[")
        raise FileNotFoundError(
            f"no file matches {path!r}." if pattern else f"there is no file {path!r}."
        )
    return [inner for file in files for inner in _files_of(file)]


def _is_known(file: Path, folder: str) -> bool:
    if any(part.startswith(".") for part in file.relative_to(folder).parts):
        return False  # hidden: copies kept by editors and notebooks
    stem = Path(file.stem) if file.suffix.lower() in COMPRESSIONS else file
    return file.is_file() and stem.suffix.lower() in FORMATS


def _check_whole_file(files: list[str], ending: str, given: Mapping[str, object]) -> None:
    """Refuse what has no meaning where a file is read as a whole."""
    if len(files) > 1:
        raise ParameterError(
            f"without `axes`, or as {ending}, one file is read at a time; got {len(files):,}."
        )
    senseless = [name for name, value in given.items() if value]
    if senseless:
        raise ParameterError(
            f"`{senseless[0]}` is for tables whose `axes` are named; {files[0]!r} is read as a "
            "whole. Leave it out."
        )


def _with_delimiter(form: TableFormat, delimiter: str | None) -> TableFormat:
    if delimiter is None:
        return form
    if not isinstance(form, Delimited) or not isinstance(delimiter, str) or len(delimiter) != 1:
        raise ParameterError(
            f"`delimiter` must be one character, for CSV and TSV files; got {delimiter!r}."
        )
    return Delimited(delimiter)


def read_rows(
    path: PathLike | Sequence[PathLike],
    columns: Sequence[str | Axis],
    *,
    delimiter: str | None = None,
    rows_at_a_time: int = ROWS_AT_A_TIME,
) -> Generator[pa.Table, None, None]:
    r"""Read files of any kind that `read_counts` reads, row by row, in their order.

    Close it if it is not read to its end: a connection is open until then.

    Parameters
    ----------
    path
        A file, a folder, a pattern, or a list of these.
    columns
        Columns that must be there; all others are kept, too. An axis stands for the column that
        its times were cut from, or its own. In text files all values are text.
    delimiter
        What separates the columns of a CSV file, if not a comma.
    rows_at_a_time
        Of each table; the first is given even if there are no rows at all.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "cells.csv"
    >>> _ = file.write_text("note,who,what\nx,ann,call\ny,bob,mail\n")
    >>> [table.to_pydict() for table in read_rows(file, ["who", "what"])]
    [{'note': ['x', 'y'], 'who': ['ann', 'bob'], 'what': ['call', 'mail']}]
    """
    store = _store_at(path)
    files, ending = ([], "") if store is not None else resolved_files(path)
    form = FORMATS.get(ending)
    if store is not None or form is None or isinstance(form, Npz | Tns):
        tensor = _whole(store, form, files, _names(columns))
        check_columns(columns_for(columns, tensor.names), tensor.names)
        for table in label_tables(tensor, "count", as_text=False):
            yield from _pieces(table, rows_at_a_time)
        return
    yield from _table_rows(_with_delimiter(form, delimiter), files, columns, rows_at_a_time)


def _whole(store: Store | None, form: Any, files: list[str], names: Sequence[str]) -> CountTensor:
    """Read what is read as a whole."""
    if store is not None:
        return store.tensor()
    own: CountTensor = form.read(files[0], None if isinstance(form, Npz) else names)
    return own


def _table_rows(
    form: TableFormat, files: list[str], asked: Sequence[str | Axis], rows_at_a_time: int
) -> Iterator[pa.Table]:
    check_packed(files)
    wanted = [*dict.fromkeys(columns_for(asked, ()) + columns_for(asked, _names(asked)))]
    with duckdb_errors(shown_files(files)), connected() as connection:
        source = form.source(connection, files, wanted, everything=True)
        check_columns(columns_for(asked, list(source.types)), list(source.types))
        # numbered, since DuckDB takes names that differ in case only for the same
        columns = [f"{sql} AS x{n}" for n, sql in enumerate(source.columns.values())]
        query = f"SELECT {', '.join(columns)} FROM {source.sql}"
        reader = connection.sql(query).to_arrow_reader(rows_at_a_time)
        names, empty = list(source.columns), True
        for batch in reader:
            empty = False
            yield from _pieces(pa.Table.from_batches([batch]).rename_columns(names), rows_at_a_time)
        if empty:
            yield reader.schema.empty_table().rename_columns(names)


def _names(asked: Sequence[str | Axis]) -> list[str]:
    return [one.name if isinstance(one, Axis) else one for one in asked]


def _pieces(table: pa.Table, size: int) -> Iterator[pa.Table]:
    for start in range(0, max(len(table), 1), size):
        yield table.slice(start, size)


def write_rows(tables: Iterator[pa.Table], path: PathLike) -> int:
    """Write tables of the same columns to one file, whole or not at all; return the number of rows.

    Parameters
    ----------
    tables
        At least one.
    path
        Where to; the ending chooses Parquet, CSV, TSV or JSON lines (text also .gz or .zst).
    """
    file = Path(path)
    if not file.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(file.parent)!r} to write to.")
    ending = written_ending(file)
    first = next(tables)  # what cannot be read is no fault of the file to write
    with written_whole(file) as target:
        return write_tables(chain([first], tables), target, ending)


def written_ending(file: Path) -> str:
    """Return the ending that says how rows are written; refuse one that cannot hold any rows."""
    ending = ending_of(file)
    if ending not in WRITTEN:
        raise FormatError(
            f"{file.name!r} must be a table with columns of its own, so its ending one of "
            f"{', '.join(WRITTEN)}; got {ending!r}."
        )
    return ending
