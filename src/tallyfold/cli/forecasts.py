"""Time: ``tallyfold forecast`` and ``tallyfold backtest``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tallyfold.cli import model_parameters, options
from tallyfold.cli.compare import models_named
from tallyfold.cli.files import STREAM, check_rows_target, write_tables
from tallyfold.cli.model_cells import PREDICTIONS, Folder, Level, load_model
from tallyfold.cli.options import option
from tallyfold.cli.progress import check_targets, interruptible, progress
from tallyfold.cli.terminal import console, number, print_json, say, say_dropped, show_table
from tallyfold.errors import printable

if TYPE_CHECKING:
    import pandas as pd

    from tallyfold.evaluation.backtest import BacktestFit

Horizon = Annotated[int, option("N", "How many periods after the last one.", min=1)]
SHOWN = ("occurrence", "amount", "total", "period crps", "period absolute error")


def forecast(
    folder: Folder,
    horizon: Horizon = 1,
    out: Annotated[str, option("FILE", PREDICTIONS, "--out", "-o")] = STREAM,
    most: Annotated[int, option("N", "How many cells of each period.", "--top", min=1)] = 50,
    totals: Annotated[
        str | None,
        option("AXIS", "Write totals of an axis's labels instead; of time: of periods."),
    ] = None,
    level: Level = 0.9,
) -> None:
    """Write the cells of the next periods with the largest expected counts.

    probability is that of any count, mean what is expected, low to high an
    interval. The model must remember earlier periods: smoothed-past,
    moving-average, seasonal-naive or last-value, or a vae-bptf with observed
    zeros, unless fitted with --set time=none.

    \b
    [bold]Examples[/]
      tallyfold forecast model --horizon 3 --top 50 --out next.csv
      tallyfold forecast model | head
      tallyfold forecast model --horizon 3 --totals category
    """  # noqa: D301
    import pyarrow as pa

    from tallyfold.evaluation.next_periods import next_periods
    from tallyfold.evaluation.next_totals import next_totals

    check_rows_target(out, [])
    model = load_model(folder)
    if totals is None:
        frame = next_periods(model, horizon, top=most, level=level)
    else:
        frame = next_totals(model, horizon, axis=totals, level=level)
    write_tables(iter([pa.Table.from_pandas(frame, preserve_index=False)]), out)


@options.with_reading(*options.READING)
def backtest(
    files: options.Files,
    reading: options.Reading,
    models: Annotated[
        str, option("A,B,...|all", "Which models.")
    ] = "smoothed-past,moving-average,last-value",
    time: Annotated[
        str, option("AXIS", "The axis of time; auto: the only one that has an order.")
    ] = "auto",
    horizon: Horizon = 1,
    origins: Annotated[int, option("N", "How many origins, the last ones.", min=1)] = 6,
    parameters: model_parameters.Set = None,
    figure: Annotated[
        Path | None, option("FILE", "Draw scores by origin: PNG, PDF or SVG, by its ending.")
    ] = None,
    out: Annotated[
        Path | None, option("FOLDER", "Keep finished fits here, to go on later.", "--out", "-o")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Fit models to what was known at past origins and score their forecasts.

    occurrence and amount are log scores per cell that has a count, of whether
    there is one (zeros included) and of how many; total is their sum. Cells of
    labels that were new are left out and counted. With --out, Ctrl-C loses
    nothing.

    \b
    [bold]Examples[/]
      tallyfold backtest events.parquet --axes user,item,date --bin date=week
      tallyfold backtest counts.npz --horizon 4 --origins 8 --out rows
      tallyfold backtest counts.npz --figure scores.png --json
    """  # noqa: D301
    from tallyfold.evaluation.backtest import backtest as run

    check_targets({"--figure": figure})
    asked = ",".join(_that_forecast()) if models == "all" else models
    chosen: Any = models_named(asked, model_parameters.settings(parameters, zeros="observed"))
    tensor = reading.counts(files)
    say_dropped(tensor, aside=True)
    how = "nothing was kept. Use --out FOLDER" if out is None else "run it again to go on"
    with interruptible(how), progress() as show:

        def announce(fit: "BacktestFit") -> None:
            words = f"{fit.model} at {fit.origin}{' (done before)' if fit.done else ''}"
            show(fit.number - 1, fit.of, printable(words), not fit.done)

        rows = run(
            tensor, chosen, axis=time, horizon=horizon, origins=origins, folder=out,
            announce=announce,
        )  # fmt: skip
    if figure is not None:
        from tallyfold.report.plots import backtest_scores

        drawn: Any = backtest_scores(rows).figure
        drawn.savefig(figure)
    if as_json:
        print_json({"rows": rows})
    else:
        _show(rows)


def _that_forecast() -> list[str]:
    """Return the names of the models that remember earlier periods."""
    from tallyfold.models.registry import MODELS

    return [name for name, kind in MODELS.items() if "time" in kind().get_params()]


def _show(rows: "pd.DataFrame") -> None:
    """Print a row per model and distance: means over origins."""
    means = rows[rows["combinations"] == "all"].pivot_table(
        index=["ahead", "model"], columns="metric", values="value", sort=False
    )
    table = [
        (
            f"{ahead:.0f}",
            printable(str(model)),
            *(number(means.loc[(ahead, model), m]) for m in SHOWN),
        )
        for ahead, model in means.index
    ]
    origins = rows["origin"].nunique()
    title = f"Means over {origins} origins"
    show_table(console(), title, ["ahead>", "model", *(f"{name}>" for name in SHOWN)], table)
    left_out = rows.drop_duplicates(["origin", "period"])["new_labels"].fillna(0).sum()
    if left_out:
        say(f"{int(left_out):,} cells of labels that were new were left out.")
    for model, part in rows[rows["error"].notna()].groupby("model"):
        for error in sorted(set(part["error"])):
            say(f"failed: {printable(str(model))}: {printable(error)}")
