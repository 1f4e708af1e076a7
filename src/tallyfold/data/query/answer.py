"""What a database answers to a query, as Arrow batches; and its errors in our words."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import pyarrow as pa

from tallyfold.data.query.address import without_secrets
from tallyfold.errors import DataError, ParameterError, TallyfoldError

ROWS_AT_A_TIME = 65_536


class Answer(NamedTuple):
    """Rows on their way out of a database.

    Attributes
    ----------
    names
        The columns, as the database calls them; one name may be there twice.
    batches
        The wanted columns, in that order; read once, and only if all of them are in `names`.
    """

    names: list[str]
    batches: Iterator[pa.RecordBatch]


def arrow_answer(
    schema: pa.Schema, next_batch: Callable[[], pa.RecordBatch], wanted: Sequence[str]
) -> Answer:
    """Return the answer that an Arrow reader gives, whose next batch is asked for by a call."""
    names = list(schema.names)

    def batches() -> Iterator[pa.RecordBatch]:
        numbers = [names.index(name) for name in wanted]
        while True:
            with reading_errors():
                try:
                    batch = next_batch()
                except StopIteration:
                    return
            yield batch.select(numbers)

    return Answer(names, batches())


def query_errors() -> AbstractContextManager[None]:
    """Turn what a driver raises when a query is begun into a ParameterError."""
    return _translated(
        ParameterError,
        "`sql` could not be run; the database says: {} Give one query in its own language.",
    )


def reading_errors() -> AbstractContextManager[None]:
    """Turn what a driver raises while rows come in into a DataError."""
    return _translated(
        DataError,
        "the query began to give rows and then failed; the database says: {} Mend the rows or the "
        "query, or try again if the connection was lost.",
    )


def opening_errors(
    uri: str, kind: type[TallyfoldError], remedy: str
) -> AbstractContextManager[None]:
    """Turn what a driver raises when a database is opened; its password is taken out."""
    shown = without_secrets(uri, uri)
    return _translated(kind, f"{shown!r} could not be opened: {{}} {remedy}", uri)


@contextlib.contextmanager
def _translated(kind: type[TallyfoldError], text: str, uri: str = "") -> Iterator[None]:
    try:
        yield
    except (TallyfoldError, MemoryError):
        raise
    except Exception as error:  # drivers share no base class
        if uri:
            error.args = (without_secrets(str(error), uri),)  # it is shown as the cause
        raise kind(text.format(_sentence(error))) from error


def _sentence(error: Exception) -> str:
    """Return a driver's words as one sentence, without the query, which may be long."""
    words = re.split(r"\n\s*(?:Query was|query|LINE 1):", str(error))[0]
    words = " ".join(words.split()) or type(error).__name__
    words = words if len(words) <= 300 else words[:297] + "..."
    return words if words.endswith((".", "?", "!")) else words + "."
