"""Files that verbs read and write; ``-`` is standard input or standard output."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tallyfold.cli.terminal import number_of, say
from tallyfold.errors import ParameterError, StorageError, TallyfoldError, printable

if TYPE_CHECKING:
    import pyarrow as pa

STREAM = "-"
"""How standard input or output is named."""


@contextmanager
def files_of(named: Sequence[str]) -> Iterator[list[str]]:
    """Give files to read; ``-``, standard input, becomes a temporary CSV file.

    A file, since readers look at the first line before they read the rest, and since what comes
    through a pipe may not fit in memory.
    """
    if STREAM not in named:
        yield list(named)
        return
    if len(named) > 1:
        raise ParameterError("standard input ('-') cannot be read together with files.")
    from tallyfold.data.temporaries import temporary_folder

    if sys.stdin is None:
        raise ParameterError(
            "standard input ('-') is closed: pipe a table into it, or name a file."
        )
    with temporary_folder() as folder:
        file = Path(folder, "standard-input.csv")
        with file.open("wb") as stream:
            shutil.copyfileobj(sys.stdin.buffer, stream)
        try:
            yield [str(file)]
        except TallyfoldError as error:
            error.args = tuple(_named(text, file) for text in error.args)
            error.lines = tuple(str(_named(line, file)) for line in error.lines)
            raise


def _named(text: object, file: Path) -> object:
    """Call the temporary file, in a message, what it stands for."""
    if not isinstance(text, str):
        return text
    for written in (repr(str(file)), str(file), repr(file.name), file.name):
        text = text.replace(written, "standard input")
    return text


def refuse_inputs(target: str, sources: Sequence[str]) -> None:
    """Refuse to write over a file that is read: its events would be gone."""
    from tallyfold.data.formats.files import resolved_files
    from tallyfold.data.store.manifest import is_store

    named = [source for source in sources if source != STREAM and not is_store(source)]
    if not named or not os.path.exists(target):
        return
    if any(os.path.samefile(file, target) for file in resolved_files(named)[0]):
        raise ParameterError(
            f"{target!r} is a file to read, which would be lost. Write to another one."
        )


def refuse_unwritable(target: str | os.PathLike[str]) -> None:
    """Refuse, before any work is done, a path that cannot be written to in the end."""
    path = Path(target).absolute()
    nearest = path if path.is_dir() else next(up for up in path.parents if up.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        raise StorageError(
            f"{str(target)!r} could not be written: {error.strerror}. Choose another path."
        ) from error


def check_rows_target(out: str | None, sources: Sequence[str], safe: bool = False) -> None:
    """Refuse, before any work is done, a file that rows cannot be written to.

    Where cells are to be `safe` for a spreadsheet, it must be one that a spreadsheet reads.
    """
    from tallyfold.data.formats.files import written_ending

    ending = None if out is None else ".csv" if out == STREAM else written_ending(Path(out))
    if safe and ending not in (".csv", ".tsv"):
        got = "no --out" if out is None else repr(out)
        raise ParameterError(f"--safe-cells is for rows written as CSV or TSV; got {got}.")
    if out is not None and out != STREAM:
        refuse_inputs(out, sources)


def write_tables(tables: "Iterator[pa.Table]", out: str, safe: bool = False) -> None:
    """Write tables one after the other to a file, or to standard output as CSV."""
    from tallyfold.data.formats.files import write_rows
    from tallyfold.data.formats.writing import rows_as_text, safe_cells

    if safe:
        tables = map(safe_cells, tables)
    if out != STREAM:
        rows = write_rows(tables, out)
        say(f"wrote {number_of(rows, 'row')} to {printable(out)}")
        return
    for number, table in enumerate(tables):
        text = rows_as_text(table, head=number == 0)
        if sys.stdout.isatty():  # somebody looks at it; a program gets it as it is
            text = printable(text.decode(), keep="\n").encode()
        sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()
