"""``tallyfold fold-in``: new entities for a fitted model, without a fit."""

from typing import TYPE_CHECKING, Annotated

import typer

from tallyfold.cli import model_folder, model_options, options
from tallyfold.cli.terminal import number_of, printable, say
from tallyfold.errors import LabelError, ParameterError

if TYPE_CHECKING:
    from tallyfold.data.tensor import CountTensor
    from tallyfold.models.base import CountModel


@options.with_reading(*options.READING_FOR_MODEL)
def fold_in(
    folder: model_options.Folder,
    files: model_options.Files,
    axis: Annotated[
        str, typer.Option("--axis", metavar="AXIS", help="The axis that gets new labels.")
    ],
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="FOLDER", help="Where to save the new model.")
    ],
    reading: options.Reading,
    overwrite: model_folder.Overwrite = False,
) -> None:
    """Teach a vae-bptf model new labels of one axis from their cells alone.

    Its encoders pass over the new cells; nothing is fitted and no old cell is
    needed. Labels of the other axes must be known.

    \b
    [bold]Example[/]
      tallyfold fold-in model new.parquet --axis author --out model2
    """  # noqa: D301
    from tallyfold.models.storage import load
    from tallyfold.models.vae_bptf import VAEBPTF

    model = load(folder)
    if not isinstance(model, VAEBPTF):
        raise ParameterError(
            f"only vae-bptf models take new labels without a fit; {folder} holds {model.name}. Fit "
            "again with all cells, or predict with --unknown prior."
        )
    model_folder.check_model_folder(out, overwrite)
    counts = model_options.counts_for(model, files, reading)
    _refuse_known(model, counts, axis)
    larger = model.fold_in(counts, axis)
    larger.save(out)
    model_folder.clear_checkpoint(out)
    number = model.posterior_.axis_number(axis)
    before, after = (len(each.axes_[number]) for each in (model, larger))
    line = f"wrote {printable(out)}: {printable(axis)} has {number_of(after - before, 'new label')}"
    say(f"{line}, {after:,} in all")


def _refuse_known(model: "CountModel", counts: "CountTensor", axis: str) -> None:
    """Refuse labels that are not new, and say how many they are."""
    number = model.posterior_.axis_number(axis)
    given = counts.axis(axis)
    known = model.axes_[number].find(given.labels)[1].nonzero()[0]
    if len(known):
        raise LabelError(
            f"{len(known):,} of {number_of(len(given), 'label')} of {axis} are known already, such "
            f"as {given.label(int(known[0]))!r}; fold-in is for new ones. Leave their cells out, "
            "or fit again with all cells."
        )
