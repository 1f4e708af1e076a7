"""A fitted model on cells it is given: ``predict``, ``surprise``, ``fold-in`` and ``update``."""

from collections.abc import Generator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from tallyfold.cli import model_folder, options
from tallyfold.cli.files import STREAM, check_rows_target, files_of, write_tables
from tallyfold.cli.model_counts import counts_for, known_cells, unknown_choices
from tallyfold.cli.options import Reading, argument, option
from tallyfold.cli.terminal import number_of, print_json, say, say_aside, show_frame
from tallyfold.errors import LabelError, ParameterError, printable

if TYPE_CHECKING:
    import pyarrow as pa

    from tallyfold.data.axis import Axis
    from tallyfold.models.base import CountModel
    from tallyfold.models.new_cells import TakesNewCells

Folder = Annotated[str, argument("MODEL", "Folder of a fitted model.")]
Level = Annotated[float, option(None, "Probability of the interval from low to high.")]
UNKNOWN_TO_PREDICT = "Labels the model does not know: stop, or take an average one"
BY_AXIS = "; AXIS=CHOICE for one axis, repeatable."
UNKNOWN = "Cells with labels the model does not know: stop, or leave them out" + BY_AXIS
UnknownCells = Annotated[
    list[str] | None, option("error|skip", UNKNOWN, "--unknown", rich_help_panel="Data")
]
NewFolder = Annotated[str, option("FOLDER", "Where to save the new model.", "--out", "-o")]
HORIZON = "Know as many periods after the last one, as forecast foretells them."
Horizon = Annotated[int | None, option("N", HORIZON, min=1)]
UNKNOWN_OR_PRIOR = "Labels the model does not know: stop, leave out, or take an average one"
PREDICTIONS = "Parquet, CSV, TSV or JSON lines, by its ending; - for CSV to standard output."

SAFE_CELLS = "Put ' before labels that a spreadsheet would take for formulas (= + - @)."
SafeCells = Annotated[bool, option(None, SAFE_CELLS, "--safe-cells")]

FORMATS = {
    "count": ",d",
    "probability": ".2g",
    "mean": ".3g",
    "low": ",d",
    "high": ",d",
    "log10_p": ".1f",
    "by_chance": ".2g",
}
USUAL = 20
"""How many cells are shown by default."""
PERIODS_BESIDE, LEAST_BESIDE = 8, 4
"""How many old periods stand beside a new one, and how many there must be to say it is worse."""


def load_model(folder: str, horizon: int | None = None) -> "CountModel":
    """Load the model in a folder, or what it says of so many periods after its last one, too."""
    from tallyfold.models.storage import load

    model: CountModel = load(folder)
    return model if horizon is None else model.forecast(horizon)


def predict(
    folder: Folder,
    files: Annotated[
        list[str] | None,
        argument("CELLS", "Table with a column per axis; - for CSV from standard input."),
    ] = None,
    out: Annotated[str, option("FILE", PREDICTIONS, "--out", "-o")] = STREAM,
    level: Level = 0.9,
    unknown: Annotated[
        list[str] | None,
        option("error|prior", UNKNOWN_TO_PREDICT + BY_AXIS, "--unknown"),
    ] = None,
    horizon: Horizon = None,
    prefix: Annotated[str, option("TEXT", "What the new columns' names begin with.")] = "",
    bins: options.Bins = None,
    tz: options.Tz = None,
    delimiter: options.Delimiter = None,
    query: options.Query = None,
    database: options.Database = None,
    safe: SafeCells = False,
) -> None:
    """Predict the counts of cells: mean, median and an interval beside each row.

    Where zeros are observed, probability is that of a count at all.

    CELLS needs a column for each axis of the model and no counts; all its
    columns are kept, in order. It is read a part at a time, so it may be larger
    than memory. Columns of text files stay text.

    \b
    [bold]Examples[/]
      tallyfold predict model cells.csv --out predictions.parquet
      tallyfold predict model new.parquet --unknown prior --out new.csv.gz
      grep 2010 cells.csv | tallyfold predict model - --level 0.5 | head
      tallyfold predict model --query "select * from cells" --database shop.db
    """  # noqa: D301
    from tallyfold.models.predicted_rows import predicted_rows

    files = files or []
    options.check_source(files, query, database, delimiter)
    check_rows_target(out, files, safe)
    model = load_model(folder, horizon)
    if not model.fitted_.has_distribution:
        say_aside(f"{model.name} predicts means only: no median, low or high.")
    with (
        files_of(files) as paths,
        closing(_rows(paths, model.axes_, delimiter, query, database)) as given,
    ):
        tables = predicted_rows(
            model,
            given,
            level=level,
            unknown=options.choices("--unknown", unknown) or "error",  # type: ignore[arg-type]
            bins=options.bins_of(bins),
            tz=tz,
            prefix=prefix,
        )
        write_tables(tables, out, safe)


def _rows(
    paths: Sequence[str],
    axes: "Sequence[Axis]",
    delimiter: str | None,
    query: str | None,
    database: str | None,
) -> "Generator[pa.Table, None, None]":
    """Read rows from files, or of a query, part by part."""
    from tallyfold.data.formats.files import read_rows
    from tallyfold.data.query.whole_rows import query_rows

    if query is not None:
        return query_rows(database, query, axes)
    return read_rows(paths, axes, delimiter=delimiter)


@options.with_reading(*options.READING_FOR_MODEL)
def surprise(
    folder: Folder,
    files: options.Files,
    reading: Reading,
    tail: Annotated[
        str, option("upper|lower|both", "Counts too large, too small, or either way.")
    ] = "both",
    most: Annotated[
        int | None, option("N", f"How many cells: {USUAL}, or all with --out.", "--top", min=1)
    ] = None,
    out: Annotated[
        str | None,
        option("FILE", "Write them to a file instead; - for standard output.", "--out", "-o"),
    ] = None,
    given: Annotated[
        str | None, option("nonzero", "Ask only how many, given that there is a count.")
    ] = None,
    absent: Annotated[
        int | None, option("N", "Rank also N empty cells, where a count was most probable.", min=0)
    ] = None,
    unknown: Annotated[
        list[str] | None,
        option("error|skip|prior", UNKNOWN_OR_PRIOR + BY_AXIS, "--unknown", rich_help_panel="Data"),
    ] = None,
    horizon: Horizon = None,
    safe: SafeCells = False,
    as_json: options.AsJson = False,
) -> None:
    """Rank cells by how unlikely their counts are to the model.

    by_chance says how many of these cells would be as unlikely by chance: a
    finding is a number far below one. mean, low and high are of the count, zero
    included, unless --given nonzero. Where zeros are observed, a cell may be odd
    for having a count at all, for how many, or for having none (--absent; 1,000
    if the file is a part of all cells, as split --cells all makes, else none).
    Cells that the model was fitted on surprise it less than they should.

    \b
    [bold]Examples[/]
      tallyfold surprise model new.parquet --value count
      tallyfold surprise model new.parquet --value count --tail upper --top 50
      tallyfold surprise model new.parquet --value count --tail lower --absent 50
      tallyfold surprise model new.parquet --unknown prior --out ranked.csv
      tallyfold surprise model july.csv --horizon 1 --absent 50
    """  # noqa: D301
    import pyarrow as pa

    from tallyfold.evaluation.surprise import surprise as surprise_of

    check_rows_target(out, files, safe)
    model = load_model(folder, horizon)
    counts = counts_for(model, files, reading)
    asked = unknown_choices(model, unknown, "error", "skip", "prior")
    counts = known_cells(model, counts, asked, prior=True)
    top = USUAL if most is None and out is None else most
    frame = surprise_of(
        model,
        counts,
        tail=tail,  # type: ignore[arg-type]
        top=top,
        given=given,  # type: ignore[arg-type]
        absent=absent,
        unknown={name: "prior" for name, one in asked.items() if one == "prior"},
    )
    if out is not None:
        write_tables(iter([pa.Table.from_pandas(frame, preserve_index=False)]), out, safe)
    elif as_json:
        print_json({"cells": counts.nnz, "tail": tail, "top": frame})
    else:
        title = f"The least expected of {counts.nnz:,} cells"
        shown = frame.drop(columns=["side", "p"])  # seen from count and mean, and from log10_p
        if "unknown" in shown and not shown["unknown"].any():
            shown = shown.drop(columns="unknown")
        show_frame(title, shown, FORMATS, spare=("low", "high"))
        for name, n_labels in frame.attrs["not_looked_at"].items():
            lacking = f"{number_of(n_labels, 'label')} of {printable(name)}"
            say(f"{lacking} without a count in here: their empty cells were not looked at.")


@options.with_reading(*options.READING_FOR_MODEL)
def fold_in(
    folder: Folder,
    files: options.Files,
    axis: Annotated[str, option("AXIS", "The axis that gets new labels.")],
    out: NewFolder,
    reading: Reading,
    overwrite: model_folder.Overwrite = False,
) -> None:
    """Teach a model new labels of one axis from their cells alone.

    For vae-bptf, margins and models of earlier periods: new cells are added to
    sums; nothing is fitted and no old cell is needed. Labels of the other axes
    must be known. With observed zeros all cells of the new labels that are not
    listed are zeros.

    \b
    [bold]Example[/]
      tallyfold fold-in model new.parquet --axis author --out model2
    """  # noqa: D301
    from tallyfold.data.axis import axis_number

    model = load_taking_model(folder)
    with model_folder.held_model_folder(out, overwrite):
        counts = counts_for(model, files, reading)
        number, given = axis_number(model.axes_, axis), counts.axis(axis)
        known = model.axes_[number].find(given.labels)[1].nonzero()[0]
        if len(known):
            raise LabelError(
                f"{len(known):,} of {number_of(len(given), 'label')} of {axis} are known already, "
                f"such as {given.label(int(known[0]))!r}; fold-in is for new ones. "
                "`tallyfold update` takes cells of both."
            )
        save_larger(model, model.fold_in(counts, axis), out)


@options.with_reading(*options.READING_FOR_MODEL)
def update(
    folder: Folder,
    files: options.Files,
    out: NewFolder,
    reading: Reading,
    overwrite: model_folder.Overwrite = False,
    again: Annotated[
        bool, option(None, "Take in counts that are the same as some before.", "--again")
    ] = False,
) -> None:
    """Teach a model new cells: of labels that it knows and of new ones, on any axis.

    For vae-bptf, margins and models of earlier periods: new cells are added to
    sums; nothing is fitted and no old cell is needed. Give each cell once; a file
    that was given before is refused. With observed zeros all cells of new labels
    that are not listed are zeros, and a new period counts as complete: how well
    it was foretold is said beside the periods before it.

    \b
    [bold]Examples[/]
      tallyfold update model yesterday.parquet --out model2
      tallyfold update model new.csv --value count --out model --overwrite
    """  # noqa: D301
    model = load_taking_model(folder)
    with model_folder.held_model_folder(out, overwrite):
        larger = model.update(counts_for(model, files, reading), again=again)
        save_larger(model, larger, out)
    _say_drift(model, larger)


def _say_drift(before: "TakesNewCells", model: "TakesNewCells") -> None:
    """Say how well new periods were told from those before them, beside old ones."""
    past = model.fitted_.forecaster
    if past is None or past.rates is None:
        return
    from tallyfold.evaluation.drift import drift

    n_new = len(model.axes_[past.history.axis]) - len(before.axes_[past.history.axis])
    table = drift(model, PERIODS_BESIDE + n_new)
    old = table["total"][: len(table) - n_new].dropna()
    new = table[len(table) - n_new :].dropna()
    for label, *_, total, count, expected in new.itertuples(index=False):
        words = f"{printable(str(label))}: log score {total:.3f}"
        words += f", {count:,.0f} counts where {expected:,.0f} were expected"
        if len(old):
            words += f"; the {len(old)} periods before: {old.mean():.3f}"
            words += f" ({old.min():.3f} to {old.max():.3f})"
            if len(old) >= LEAST_BESIDE and total < old.min():
                words += ". That is below all of them: think of a new fit"
        say(words)


def load_taking_model(folder: str) -> "TakesNewCells":
    """Load a model that takes in new cells without a fit; refuse others."""
    from tallyfold.models.new_cells import TakesNewCells

    model = load_model(folder)
    if not isinstance(model, TakesNewCells):
        raise ParameterError(
            f"only vae-bptf and margins models take new cells without a fit; {folder} holds "
            f"{model.name}. Fit again with all cells, or predict with --unknown prior."
        )
    return model


def save_larger(before: "TakesNewCells", model: "TakesNewCells", out: str) -> None:
    """Save a model that has taken in new cells, and say what labels are new."""
    model.save(out)
    model_folder.clear_checkpoint(out)
    told = []
    for old, new in zip(before.axes_, model.axes_, strict=True):
        if len(new) > len(old):
            more = number_of(len(new) - len(old), "new label")
            told.append(f"{printable(new.name)} has {more}, {len(new):,} in all")
            past = model.fitted_.forecaster
            if past is not None and model.axes_[past.history.axis] is new:
                told[-1] += " (each counts as complete: add its other rows before you forecast)"
    say(f"wrote {printable(out)}: {'; '.join(told) or 'no label is new'}")
