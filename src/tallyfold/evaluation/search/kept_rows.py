"""The scores of a rank choice, kept in one JSON file as they come."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallyfold.errors import StorageError
from tallyfold.evaluation.search.identity import refuse_other
from tallyfold.inference.fit.folder import replace_file

if TYPE_CHECKING:
    import pandas as pd

FORMAT = "tallyfold-ranks"
COLUMNS = ("components", "fold", "score", "seconds", "error")

Row = dict[str, Any]


class KeptRows:
    """Rows by number of components and fold, in a file or (without one) in memory only.

    The file is written anew with each row, and moved into place whole: there are few rows, and
    each is worth a fit.
    """

    def __init__(self, path: str | os.PathLike[str] | None, identity: dict[str, Any]) -> None:
        self._file = None if path is None else Path(path)
        self._identity = identity
        self._rows: dict[tuple[int, int], Row] = {}
        if self._file is not None and self._file.exists():
            self._rows = self._read(self._file)

    def get(self, components: int, fold: int) -> Row | None:
        """Return the row of a fit that was done before."""
        return self._rows.get((components, fold))

    def add(self, row: Row) -> None:
        """Keep a row."""
        self._rows[row["components"], row["fold"]] = row
        if self._file is None:
            return
        document = {"format": FORMAT, "of": self._identity, "rows": list(self._rows.values())}
        try:
            replace_file(self._file, json.dumps(document, indent=1).encode())
        except OSError as error:
            raise StorageError(
                f"{str(self._file)!r} could not be written: {error.strerror or error}. The scores "
                "it held before are still there. Make room, and run the same again to go on."
            ) from error

    def frame(self, ranks: Sequence[int]) -> pd.DataFrame:
        """Return the rows of some numbers of components, in order."""
        import pandas as pd

        rows = [row for key, row in sorted(self._rows.items()) if key[0] in ranks]
        frame = pd.DataFrame(rows, columns=list(COLUMNS))
        return frame.astype({"score": float, "seconds": float})

    def _read(self, file: Path) -> dict[tuple[int, int], Row]:
        try:
            document = json.loads(file.read_text("utf-8"))
            kind, identity, rows = document["format"], document["of"], document["rows"]
            found = {(row["components"], row["fold"]): {n: row[n] for n in COLUMNS} for row in rows}
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise StorageError(
                f"{str(file)!r} holds no scores of a rank choice: {error!r}. Choose another file."
            ) from error
        if kind != FORMAT:
            raise StorageError(
                f"{str(file)!r} holds something else than scores of a rank choice. Choose another "
                "file."
            )
        refuse_other(identity, self._identity, repr(str(file)), "file")
        return found
