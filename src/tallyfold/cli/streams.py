"""Standard input as a file, and standard output as one."""

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tallyfold.errors import ParameterError, TallyfoldError

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
    with tempfile.TemporaryDirectory(prefix="tallyfold-") as folder:
        file = Path(folder, "standard-input.csv")
        with file.open("wb") as stream:
            shutil.copyfileobj(sys.stdin.buffer, stream)
        try:
            yield [str(file)]
        except TallyfoldError as error:
            error.args = tuple(_named(text, file) for text in error.args)
            raise


def _named(text: object, file: Path) -> object:
    """Call the temporary file, in a message, what it stands for."""
    if not isinstance(text, str):
        return text
    for written in (repr(str(file)), str(file), repr(file.name), file.name):
        text = text.replace(written, "standard input")
    return text


def write_csv(tables: "Iterator[pa.Table]") -> int:
    """Write tables to standard output as CSV; return how many rows."""
    from tallyfold.data.formats.writing import rows_as_text

    rows, head = 0, True
    for table in tables:
        sys.stdout.buffer.write(rows_as_text(table, head=head))
        rows, head = rows + len(table), False
    sys.stdout.buffer.flush()
    return rows
