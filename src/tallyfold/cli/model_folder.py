"""The folder that a fit writes: the model, and on the way there a checkpoint inside it."""

import contextlib
from pathlib import Path

from tallyfold.errors import StorageError

CHECKPOINT = "checkpoint"
"""Kept until the fit is done, so that a killed or interrupted one can go on."""
OURS = ("model.json", "arrays*.safetensors", ".writing-*")


def check_model_folder(out: str) -> None:
    """Refuse to write where something else is; an older model there is replaced."""
    from tallyfold.inference.folder import refuse_foreign
    from tallyfold.models.storage import KIND

    place = Path(out)
    if place.exists() and not place.is_dir():
        raise StorageError(f"{out!r} is a file; --out must name a folder.")
    refuse_foreign(place, KIND)
    if place.is_dir() and not (place / "model.json").exists():
        other = [each.name for each in place.iterdir() if not _is_ours(each)]
        if other:
            raise StorageError(
                f"{out!r} holds something else than a model, such as {sorted(other)[0]!r}. Choose "
                "another folder."
            )


def unfinished(out: str) -> bool:
    """Tell whether a folder has the checkpoint of a fit that did not come to its end."""
    return (Path(out) / CHECKPOINT).is_dir()


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


def _is_ours(file: Path) -> bool:
    return file.name == CHECKPOINT or any(file.match(pattern) for pattern in OURS)
