"""Places to write to: none may be a file that is read, and all must allow it."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tallyfold.cli.streams import STREAM
from tallyfold.errors import ParameterError, StorageError


def refuse_inputs(target: str, sources: Sequence[str]) -> None:
    """Refuse to write over a file that is read: its events would be gone."""
    from tallyfold.data.formats.files import resolved_files

    named = [source for source in sources if source != STREAM]
    if not named or not os.path.exists(target):
        return
    for file in resolved_files(named)[0]:
        if os.path.samefile(file, target):
            raise ParameterError(
                f"{target!r} is a file to read, which would be lost. Write to another one."
            )


def refuse_unwritable(target: str | os.PathLike[str]) -> None:
    """Refuse, before any work is done, a place that cannot be written to in the end."""
    place = Path(target).absolute()
    nearest = place if place.is_dir() else next(up for up in place.parents if up.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as error:
        raise StorageError(
            f"{str(target)!r} could not be written: {error.strerror}. Choose another place."
        ) from error
