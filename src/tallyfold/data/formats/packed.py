"""Packed files: whether they are what was packed."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence

from tallyfold.data.formats import writing
from tallyfold.errors import FormatError

BYTES_AT_A_TIME = 1 << 20


def check_packed(files: Sequence[str]) -> None:
    """Refuse gzip files whose checksum is wrong: DuckDB does not look at it."""
    for file in files:
        if writing.compression_of(file) != "gzip":
            continue
        try:
            with gzip.open(file) as stream:
                while stream.read(BYTES_AT_A_TIME):
                    pass
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise FormatError(
                f"{file!r} is damaged: {error}. It is not what was packed; fetch or write it again."
            ) from error
