"""Files to write: none of them may be one that is read."""

import os
from collections.abc import Sequence

from tallyfold.cli.streams import STREAM
from tallyfold.errors import ParameterError


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
