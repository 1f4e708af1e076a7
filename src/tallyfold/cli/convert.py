"""``tallyfold convert``: from one file format to another."""

from typing import Annotated

import typer

from tallyfold.cli import options
from tallyfold.cli.targets import refuse_inputs
from tallyfold.cli.terminal import console, number_of, printable


def convert(
    source: Annotated[str, typer.Argument(metavar="IN", help="File to read, or a quoted glob.")],
    target: Annotated[
        str, typer.Argument(metavar="OUT", help="File to write; its ending decides.")
    ],
    axes: options.Axes = None,
    value: options.Value = None,
    count_rows: options.CountRows = False,
    bins: options.Bins = None,
    min_nonzeros: options.MinNonzeros = None,
    top: options.Top = None,
    delimiter: options.Delimiter = None,
) -> None:
    """Read counts from one file and write them in another format.

    The ending of OUT decides the format. Rows of the same cell are added up,
    so an event table becomes a table of counts.

    \b
    [bold]Examples[/]
      tallyfold convert events.csv.gz counts.parquet --axes user,page,day
      tallyfold convert ratings.csv ratings.npz --axes user,movie --value stars
      tallyfold convert counts.npz counts.tns
    """  # noqa: D301
    from tallyfold.data.formats import read_counts, write_counts

    refuse_inputs(target, [source])
    tensor = read_counts(
        source, **options.reading(axes, value, count_rows, bins, min_nonzeros, top, delimiter)
    )
    write_counts(tensor, target)
    out = console()
    for record in tensor.dropped:
        out.print(f"left out: {printable(record)}", markup=False, soft_wrap=True)
    sizes = " x ".join(f"{size:,}" for size in tensor.shape)
    out.print(
        f"wrote {number_of(tensor.nnz, 'cell')} ({sizes}) to {target}", markup=False, soft_wrap=True
    )
