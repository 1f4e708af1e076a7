"""Scores of models on datasets, as dots."""

from __future__ import annotations

from math import ceil
from typing import Any

from tallyfold.report.plots.inputs import read_numbers
from tallyfold.report.plots.legible import legible
from tallyfold.report.plots.style import COLOURS, Panels, drawing_panels, finish
from tallyfold.report.plots.whiskers import name_rows

OURS: Any = {"color": COLOURS[0], "marker": "o", "markersize": 6, "linestyle": ""}
PUBLISHED: Any = OURS | {"color": COLOURS[1], "marker": "D", "mfc": "none", "mew": 1.4}


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
) -> Panels:
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
    numbers = [name for name in (score, error, published) if name]
    table = read_numbers(frame, numbers, [model, dataset], missing=True)
    models = list(dict.fromkeys(table[model]))
    parts = list(table.groupby(dataset, sort=False, dropna=False))
    columns = min(3, len(parts))
    rows = ceil(len(parts) / columns)
    size = (max(6.4, 2.9 * columns + 0.8), rows * (0.75 + 0.3 * len(models)) + 1.0)
    below = "" if len(parts) > 1 and ax is None else xlabel or score  # panels are too narrow for it
    with drawing_panels(ax, len(parts), columns, size) as panels:
        for number, (panel, (name, part)) in enumerate(zip(panels, parts, strict=True)):
            place = part[model].map(models.index)
            bars = part[error] if error else None
            panel.errorbar(part[score], place, xerr=bars, capsize=2.5, **OURS)
            if published:
                panel.plot(part[published], place + 0.22, **PUBLISHED)
            name_rows(panel, models, 30)
            panel.margins(x=0.12)
            (text,), how = legible([name], 28)
            finish(panel, text, below, "", how, "both")
            if ax is None and number % columns:
                panel.tick_params(labelleft=False)
        if ax is None:
            texts, how = legible([title or f"{score} by model", xlabel or score], 90)
            lines = texts if len(panels) > 1 else texts[:1]
            panels[0].figure.suptitle("\n".join(lines), fontsize=11, **how)
            if published:
                _add_legend(panels, "ours (± one standard error)" if error else "ours")
    return panels


def _add_legend(panels: Panels, ours: str) -> None:
    from matplotlib.lines import Line2D

    dots = [Line2D([], [], **style) for style in (OURS, PUBLISHED)]
    names = [ours, "published"]
    panels[0].figure.legend(dots, names, loc="outside lower center", ncols=2)
