"""``tallyfold surprise``: the cells that a model did not expect."""

from typing import Annotated

import typer

from tallyfold.cli import model_options, options
from tallyfold.cli.files import check_rows_target, write_tables
from tallyfold.cli.terminal import console, print_json, records, show_frame

FORMATS = {
    "count": ",d",
    "mean": ".3g",
    "low": ",d",
    "high": ",d",
    "log10_p": ".1f",
    "by_chance": ".2g",
}
USUAL = 20
"""How many cells are shown."""


@options.with_reading(*options.READING_FOR_MODEL)
def surprise(
    folder: model_options.Folder,
    files: model_options.Files,
    reading: options.Reading,
    tail: Annotated[
        str,
        typer.Option(
            metavar="upper|lower|both", help="Counts too large, too small, or either way."
        ),
    ] = "both",
    most: Annotated[
        int | None,
        typer.Option(
            "--top", metavar="N", min=1, help=f"How many cells: {USUAL}, or all with --out."
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Write them to a file instead; - for standard output.",
        ),
    ] = None,
    unknown: model_options.UnknownCells = "error",
    as_json: model_options.AsJson = False,
) -> None:
    """Rank cells by how unlikely their counts are to the model.

    p is P(Y >= y), P(Y <= y), or with both tails twice the smaller mid-p value;
    by_chance says how many of these cells would be as unlikely by chance. Cells
    that the model was fitted on surprise it less than they should.

    \b
    [bold]Examples[/]
      tallyfold surprise model new.parquet --value count
      tallyfold surprise model new.parquet --value count --tail upper --top 50
      tallyfold surprise model new.npz --out ranked.csv
    """  # noqa: D301
    import pyarrow as pa

    from tallyfold.evaluation.surprise import surprise as surprise_of
    from tallyfold.models.storage import load

    if out is not None:
        check_rows_target(out, files)
    model = load(folder)
    counts = model_options.counts_for(model, files, reading)
    counts = model_options.known_cells(model, counts, unknown)
    top = USUAL if most is None and out is None else most
    frame = surprise_of(model, counts, tail=tail, top=top)  # type: ignore[arg-type]
    if out is not None:
        write_tables(iter([pa.Table.from_pandas(frame, preserve_index=False)]), out)
    elif as_json:
        print_json({"cells": counts.nnz, "tail": tail, "top": records(frame)})
    else:
        title = f"The least expected of {counts.nnz:,} cells"
        shown = frame.drop(columns=["side", "p"])  # seen from count and mean, and from log10_p
        show_frame(console(), title, shown, FORMATS, spare=("low", "high"))
