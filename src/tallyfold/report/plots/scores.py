"""Scores: of models on data sets, against a number, and by the number of components."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from tallyfold.errors import DataError
from tallyfold.evaluation.metrics import METRICS
from tallyfold.models.parameters import check_parameters, one_of
from tallyfold.report.plots import style
from tallyfold.report.plots.legible import legible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OURS: Any = {"color": style.COLOURS[0], "marker": "o", "markersize": 6, "linestyle": ""}
PUBLISHED: Any = OURS | {"color": style.COLOURS[1], "marker": "D", "mfc": "none", "mew": 1.4}


def score_bars(
    frame: Any,
    score: str = "score",
    model: str = "model",
    dataset: str = "dataset",
    *,
    error: str | None = None,
    published: str | None = None,
    xlabel: str | None = None,
    title: str | None = None,
    ax: Any = None,
) -> style.Panels:
    """Draw scores as dots, a row per model and a panel per dataset, each with a scale of its own.

    Parameters
    ----------
    frame
        A row per model and dataset.
    score, model, dataset
        Columns: our score, the model's name, and the dataset's. A missing score is a row without
        a dot.
    error
        A column of standard errors of our scores.
    published
        A column of the scores printed elsewhere, drawn as hollow diamonds beside ours.
    xlabel, title
        What to write, with units, such as "mean absolute error (lower is better)".
    ax
        As many axes as there are datasets; None makes a figure.

    Returns
    -------
    numpy.ndarray
        A panel per dataset, in the order of the frame.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"model": ["a", "b"], "dataset": "d", "mae": [0.5, 0.6]})
    >>> score_bars(frame, "mae").shape
    (1,)
    """
    from matplotlib.lines import Line2D

    numbers = [name for name in (score, error, published) if name]
    table = style.read_numbers(frame, numbers, [model, dataset], missing=True)
    models = list(dict.fromkeys(table[model]))
    parts = list(table.groupby(dataset, sort=False, dropna=False))
    columns = min(3, len(parts))
    rows = ceil(len(parts) / columns)
    size = (max(6.4, 2.9 * columns + 0.8), rows * (0.75 + 0.3 * len(models)) + 1.0)
    below = "" if len(parts) > 1 and ax is None else xlabel or score  # panels are too narrow for it
    with style.drawing_panels(ax, len(parts), columns, size) as panels:
        for number, (panel, (name, part)) in enumerate(zip(panels, parts, strict=True)):
            place = part[model].map(models.index)
            bars = part[error] if error else None
            panel.errorbar(part[score], place, xerr=bars, capsize=2.5, **OURS)
            if published:
                panel.plot(part[published], place + 0.22, **PUBLISHED)
            style.name_rows(panel, models, 30)
            panel.margins(x=0.12)
            (text,), how = legible([name], 28)
            style.finish(panel, text, below, "", how, "both")
            if ax is None and number % columns:
                panel.tick_params(labelleft=False)
        if ax is None:
            texts, how = legible([title or f"{score} by model", xlabel or score], 90)
            lines = texts if len(panels) > 1 else texts[:1]
            panels[0].figure.suptitle("\n".join(lines), fontsize=11, **how)
            if published:
                dots = [Line2D([], [], **line_style) for line_style in (OURS, PUBLISHED)]
                names = ["ours (± one standard error)" if error else "ours", "published"]
                panels[0].figure.legend(dots, names, loc="outside lower center", ncols=2)
    return panels


SCALES = {False: "linear", True: "log"}
FEW, FEW_WHOLE = 6, 8
"""Values, and whole numbers, that have room to be written below an axis."""


def score_curves(
    frame: Any,
    x: str,
    y: str,
    series: str | None = None,
    error: str | None = None,
    *,
    log: str = "none",
    xlabel: str | None = None,
    ylabel: str | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw numbers against numbers, a line with error bars for each series.

    Parameters
    ----------
    frame
        A row per point.
    x, y
        Columns of numbers. A missing y, or error, is a point, or an error bar, left out.
    series
        The column whose values are the lines, at most eight, in the order of the frame.
    error
        A column of standard errors, or of half the length of other bars.
    log
        Axes with a logarithmic scale: ``"none"``, ``"x"``, ``"y"`` or ``"xy"``.
    xlabel, ylabel, title
        What to write, with units; the names of the columns if not given.
    ax
        Axes to draw on; None makes a figure.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"share": [1, 5, 1, 5], "mae": [4, 3, 3, 2], "model": [*"aabb"]})
    >>> len(score_curves(frame, "share", "mae", "model", xlabel="share of the data, %").lines)
    2
    """
    check_parameters({"log": log}, {"log": one_of("none", "x", "y", "xy")})
    numbers = [x, y, *([error] if error else [])]
    table = style.read_numbers(frame, numbers, [series] if series else [], missing=True)
    parts = [*table.groupby(series, sort=False, dropna=False)] if series else [(y, table)]
    style.refuse_many(len(parts), "series")
    names, how = legible((name for name, _ in parts), 30)
    texts, how_texts = legible([xlabel or x, ylabel or y, title or f"{y} by {x}"], 90)
    handles = []
    with style.drawing(ax) as ax:
        for number, (_, part) in enumerate(parts):
            handles.append(_line(ax, part.dropna(subset=[x, y]).sort_values(x), numbers, number))
        ax.set(xscale=SCALES["x" in log], yscale=SCALES["y" in log])
        values = sorted(table[x].dropna().unique())
        if "x" in log or all(value.is_integer() for value in values):
            _write_values(ax, values, FEW if "x" in log else FEW_WHOLE)
        style.finish(ax, texts[2], texts[0], texts[1], how_texts, "both")
        if series:
            style.add_legend(ax, handles, names, how, loc="upper left", bbox_to_anchor=(1.01, 1))
    return ax


def _line(ax: Axes, part: Any, numbers: list[str], number: int) -> Any:
    colour, marker, line = style.look(number)
    x, y, *error = (part[name].to_numpy() for name in numbers)
    line_style: Any = {"color": colour, "marker": marker, "linestyle": line, "markersize": 5}
    bars, cap = (error[0], 2.5) if error else (None, 0)
    return ax.errorbar(x, y, bars, linewidth=1.5, elinewidth=1, capsize=cap, **line_style)


def rank_curve(choice: Any, *, score: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw the held-out score against the number of components, with standard errors.

    Parameters
    ----------
    choice
        What `select_rank` returned: a dotted line marks the best score, and bars are standard
        errors of the difference to it, fold by fold. The smallest number whose bar reaches the
        line is chosen. Or a frame with columns ``components``, ``mean`` and ``se``, where larger
        means are better: bars are standard errors of the means, the line is one below the best,
        and the smallest number above it is chosen.
    score
        What the score is; None says it by the metric's name.
    ax
        Axes to draw on; None makes a figure.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"components": [2, 4, 8], "mean": [-1.3, -1.1, -1.0], "se": 0.2})
    >>> [text.get_text() for text in rank_curve(table).get_legend().get_texts()]
    ['best: 8', 'chosen: 4']
    """
    compared = hasattr(choice, "chosen")
    error = "difference_se" if compared else "se"
    table = style.read_numbers(
        getattr(choice, "table", choice), ["components", "mean", error], missing=True
    )
    table = table.dropna(subset=["components", "mean"]).sort_values("components")
    if not len(table):
        raise DataError("no number of components has a score; there is nothing to draw.")
    metric = METRICS.get(getattr(choice, "metric", ""))
    meaning = f"{metric.meaning}, {metric.better} is better" if metric else "score"
    if compared:
        best, chosen, of = choice.best, choice.chosen, " of the difference to the best"
        line = table.loc[table["components"] == best, "mean"].iloc[0]
    else:
        first = table.iloc[int(table["mean"].argmax())]
        line, of = first["mean"] - np.nan_to_num(first["se"]), ""
        best, chosen = first["components"], table.loc[table["mean"] >= line, "components"].min()
    with style.drawing(ax) as ax:
        bars: Any = {"color": style.COLOURS[0], "capsize": 3, "linewidth": 1.5, "markersize": 5}
        ax.errorbar(table["components"], table["mean"], table[error].fillna(0), fmt="o-", **bars)
        handles = []
        for number, (rank, marker, size) in enumerate([(best, "o", 10), (chosen, "D", 13)], 1):
            at = table[table["components"] == rank]
            ring: Any = {"color": style.COLOURS[number], "mfc": "none", "mew": 1.6, "linestyle": ""}
            handles += ax.plot(at["components"], at["mean"], marker, markersize=size, **ring)
        ax.axhline(line, color=style.PALE_INK, linestyle=":", linewidth=1)
        if table["components"].max() > 8 * table["components"].min() > 0:
            ax.set_xscale("log", base=2)
        _write_values(ax, [*table["components"]], 12)
        title = "Score on held-out cells by the number of components"
        y = f"{score or meaning}\n(± one standard error{of})"
        style.finish(ax, title, "number of components", y, {}, "y")
        names = [f"best: {best:g}", f"chosen: {chosen:g}"]
        style.add_legend(ax, handles, names, {}, loc="best", labelspacing=0.8)
    return ax


def _write_values(ax: Axes, values: list[float], most: int) -> None:
    """Write the values themselves below the x axis, if there is room: 5 and 10, not 6 x 10^0."""
    if len(values) <= most:
        ax.set_xticks(values, [f"{value:,g}" for value in values])
        ax.set_xticks([], minor=True)
