"""``tallyfold predict``: what a model says of cells, row by row."""

from contextlib import closing
from typing import Annotated

import typer

from tallyfold.cli import model_options, options
from tallyfold.cli.files import STREAM, check_rows_target, files_of, write_tables


def predict(
    folder: model_options.Folder,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="CELLS", help="Table with a column per axis; - for CSV from standard input."
        ),
    ],
    out: Annotated[
        str,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Parquet, CSV, TSV or JSON lines, by its ending; - for CSV to standard output.",
        ),
    ] = STREAM,
    level: Annotated[float, typer.Option(help="Of the interval from low to high.")] = 0.9,
    unknown: Annotated[
        str,
        typer.Option(
            metavar="error|prior",
            help="Labels the model does not know: stop, or take an average one.",
        ),
    ] = "error",
    prefix: Annotated[
        str, typer.Option(metavar="TEXT", help="What the new columns' names begin with.")
    ] = "",
    bins: options.Bins = None,
    delimiter: options.Delimiter = None,
) -> None:
    """Predict the counts of cells: mean, median and an interval beside each row.

    CELLS needs a column for each axis of the model and no counts; all its
    columns are kept, in order. It is read a part at a time, so it may be larger
    than memory. Columns of text files stay text.

    \b
    [bold]Examples[/]
      tallyfold predict model cells.csv --out predictions.parquet
      tallyfold predict model new.parquet --unknown prior --out new.csv.gz
      grep 2010 cells.csv | tallyfold predict model - --level 0.5 | head
    """  # noqa: D301
    from tallyfold.data.formats.files import read_rows
    from tallyfold.models.predicted_rows import predicted_rows
    from tallyfold.models.storage import load

    check_rows_target(out, files)
    model = load(folder)
    if model.fitted_.likelihood is None:
        typer.echo(
            f"tallyfold: {model.name} predicts means only: no median, low or high.", err=True
        )
    names = [axis.name for axis in model.axes_]
    with files_of(files) as paths, closing(read_rows(paths, names, delimiter=delimiter)) as given:
        tables = predicted_rows(
            model,
            given,
            level=level,
            unknown=unknown,  # type: ignore[arg-type]
            bins=options.pairs("--bin", bins),
            prefix=prefix,
        )
        write_tables(tables, out)
