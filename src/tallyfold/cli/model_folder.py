"""The folder that a fit writes: the model, and on the way there a checkpoint inside it."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tallyfold.cli.files import refuse_unwritable
from tallyfold.cli.options import option
from tallyfold.errors import StorageError

if TYPE_CHECKING:
    from tallyfold.data.axis import Axis
    from tallyfold.data.tensor import CountTensor
    from tallyfold.models.base import CountModel

CHECKPOINT = "checkpoint"
"""Kept until the fit is done, so that a killed or interrupted one can go on."""
OURS = (
    "model.json", "arrays*.safetensors", "part-*.safetensors", "large-*", ".writing-*", ".lock",
)  # fmt: skip

Overwrite = Annotated[bool, option(None, "Replace a model that is in the folder.", "--overwrite")]


@contextlib.contextmanager
def held_model_folder(out: str, overwrite: bool, resume: bool | None = None) -> Iterator[None]:
    """Keep other processes out of a folder until the model in it is written.

    Refuse to write over other files, or over a model without --overwrite. `resume` says whether to
    go on with an unfinished fit; None for a verb that cannot.
    """
    from tallyfold.data.locks import locked_folder

    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise StorageError(f"{out!r} is a file; --out must name a folder.")
    refuse_unwritable(folder)
    with locked_folder(out, wait=0):
        _refuse_to_replace(out, overwrite, resume)
        yield


def _refuse_to_replace(out: str, overwrite: bool, resume: bool | None) -> None:
    from tallyfold.inference.fit.folder import refuse_foreign
    from tallyfold.models.storage import KIND

    folder = Path(out)
    refuse_foreign(folder, KIND)
    if folder.is_dir() and not (folder / "model.json").exists():
        ours = {folder / CHECKPOINT}.union(*(folder.glob(pattern) for pattern in OURS))
        other = [each.name for each in folder.iterdir() if each not in ours]
        if other:
            raise StorageError(
                f"{out!r} holds something else than a model, such as {sorted(other)[0]!r}. Choose "
                "another folder."
            )
    if overwrite or resume:
        return
    if unfinished(out):
        how = "" if resume is None else "--resume goes on with it; "
        raise StorageError(f"{out!r} has an unfinished fit. {how}--overwrite replaces it.")
    if (folder / "model.json").exists():
        raise StorageError(
            f"{out!r} holds a finished model. --overwrite replaces it; or choose another folder."
        )


def is_finished(
    out: str, model: "CountModel", cells: "CountTensor", axes: "Sequence[Axis]"
) -> bool:
    """Tell whether a fit has come to its end; refuse to go on with one of something else.

    `cells` are those, or some of those, that the model is to be fitted to: they decide what was
    left to the fit, such as which axis is time.
    """
    from tallyfold.models.base import Given
    from tallyfold.models.storage import load

    if unfinished(out) or not (Path(out) / "model.json").exists():
        return False
    found = load(out)
    of = "" if tuple(found.axes_) == tuple(axes) else " of other data"
    known = {"name": found.name} | found.fitted_.parameters
    asked = {"name": model.name} | model._plain_parameters()
    seeded = {"random_state": 0} if "random_state" in asked else {}
    decided = model._with(**seeded)._decided(cells, Given())._plain_parameters()
    wanted = {n: v if n in seeded else decided.get(n, v) for n, v in asked.items() if v is not None}
    if other := [n for n, v in wanted.items() if known.get(n) != v]:
        of = f" with another {other[0]} ({known.get(other[0])!r}, not {wanted[other[0]]!r})"
    if of:
        raise StorageError(
            f"{out!r} holds a finished {found.name} model{of}: there is no fit to go on with. "
            "--overwrite fits again and replaces it; or choose another folder."
        )
    return True


def unfinished(out: str) -> bool:
    """Tell whether a folder has the checkpoint of a fit that did not come to its end."""
    return any((Path(out) / CHECKPOINT).rglob("model.json"))


def clear_checkpoint(out: str) -> None:
    """Remove the checkpoint of a fit that is done; files that are not ours stay."""
    place = Path(out) / CHECKPOINT
    for folder in [*place.glob("*/*"), *place.glob("*"), place]:
        if not folder.is_dir():
            continue
        for pattern in OURS:
            for file in folder.glob(pattern):
                file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # not empty: it has a file of somebody else
            folder.rmdir()
