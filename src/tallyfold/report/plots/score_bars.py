"""Scores of models on datasets, as dots."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

from tallyfold.report.plots.inputs import read_numbers
from tallyfold.report.plots.legible import legible
from tallyfold.report.plots.style import COLOURS, Panels, drawing_panels, finish

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


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
    with drawing_panels(ax, len(parts), columns, size) as panels:
        for number, (panel, (name, part)) in enumerate(zip(panels, parts, strict=True)):
            _draw(panel, part, numbers, model, models, error, published)
            (text,), how = legible([name], 28)
            finish(
                panel,
                text,
                "" if len(parts) > 1 and ax is None else xlabel or score,
                "",
                how,
                "both",
            )
            if ax is None and number % columns:
                panel.tick_params(labelleft=False)
        if ax is None:
            _headline(panels, _titles(title, score, xlabel), error, published)
    return panels


def _draw(
    ax: Axes,
    part: pd.DataFrame,
    numbers: list[str],
    model: str,
    models: list[Any],
    error: str | None,
    published: str | None,
) -> None:
    place = part[model].map(models.index)
    names, how = legible(models, 30)
    ours: Any = {
        "color": COLOURS[0],
        "marker": "o",
        "markersize": 6,
        "linestyle": "",
        "capsize": 2.5,
    }
    printed: Any = {"marker": "D", "markersize": 6, "linestyle": "", "mfc": "none", "mew": 1.4}
    ax.errorbar(part[numbers[0]], place, xerr=part[error] if error else None, **ours)
    if published:
        ax.plot(part[published], place + 0.22, color=COLOURS[1], **printed)
    ax.set_yticks(range(len(names)), names, **how)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.margins(x=0.12)


def _titles(title: str | None, score: str, xlabel: str | None) -> list[str]:
    """Return the title, and the label of all panels, which are too narrow for it, below."""
    return [title or f"{score} by model", xlabel or score]


def _headline(panels: Panels, titles: list[str], error: str | None, published: str | None) -> None:
    from matplotlib.lines import Line2D

    figure = panels[0].figure
    texts, how = legible(titles, 90)
    lines = texts if len(panels) > 1 else texts[:1]
    figure.suptitle("\n".join(lines), fontsize=11, **how)
    if published:
        dots = [
            Line2D([], [], color=COLOURS[0], marker="o", linestyle="", markersize=6),
            Line2D([], [], color=COLOURS[1], marker="D", linestyle="", mfc="none", mew=1.4),
        ]
        names = ["ours (± one standard error)" if error else "ours", "published"]
        figure.legend(dots, names, loc="outside lower center", ncols=2)
