"""``tallyfold fold-in``: new entities for a fitted model, without a fit."""

from typing import Annotated

import typer

from tallyfold.cli import model_options, options
from tallyfold.cli.model_folder import check_model_folder
from tallyfold.cli.terminal import console, printable
from tallyfold.errors import ParameterError


def fold_in(
    folder: model_options.Folder,
    files: model_options.Files,
    axis: Annotated[
        str, typer.Option("--axis", metavar="AXIS", help="The axis that gets new labels.")
    ],
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="FOLDER", help="Where to save the new model.")
    ],
    value: options.Value = None,
    count_rows: options.CountRows = False,
    bins: options.Bins = None,
    delimiter: options.Delimiter = None,
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
    check_model_folder(out)
    counts = model_options.counts_for(model, files, value, count_rows, bins, delimiter)
    larger = model.fold_in(counts, axis)
    larger.save(out)
    number = model.posterior_.axis_number(axis)
    before, after = (len(each.axes_[number]) for each in (model, larger))
    line = f"wrote {printable(out)}: {printable(axis)} has {after - before:,} new labels, {after:,}"
    console().print(f"{line} in all", markup=False, soft_wrap=True)
