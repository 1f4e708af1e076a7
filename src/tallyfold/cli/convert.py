"""``tallyfold convert``: from one file format to another."""

from typing import Annotated

import typer

from tallyfold.cli import options
from tallyfold.cli.files import refuse_inputs
from tallyfold.cli.terminal import number_of, say, say_dropped


@options.with_reading(*options.READING)
def convert(
    source: Annotated[str, typer.Argument(metavar="IN", help="File to read, or a quoted glob.")],
    target: Annotated[
        str, typer.Argument(metavar="OUT", help="File to write; its ending decides.")
    ],
    reading: options.Reading,
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
    from tallyfold.data.formats import write_counts

    refuse_inputs(target, [source])
    tensor = reading.counts([source])
    write_counts(tensor, target)
    say_dropped(tensor)
    sizes = " x ".join(f"{size:,}" for size in tensor.shape)
    say(f"wrote {number_of(tensor.nnz, 'cell')} ({sizes}) to {target}")
