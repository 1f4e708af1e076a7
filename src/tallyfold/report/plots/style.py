"""What figures share: colours that all readers can tell apart, axes to draw on, bars, tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tallyfold.data.events import read_columns
from tallyfold.data.request import Request
from tallyfold.errors import DataError, ParameterError
from tallyfold.kernels.arrays import Floats
from tallyfold.report.plots.legible import LONGEST, legible

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.legend import Legend

Panels = npt.NDArray[np.object_]
"""Axes of a figure with several panels, in reading order."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")
"""Okabe and Ito's colours; their yellow cannot be read on white, so a grey stands for it."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (6, 1)), (0, (1, 1)), (0, (4, 1, 1, 1)), "-")

INK, PALE_INK = "#222222", "#6B6B6B"
SIZE = (6.4, 4.0)


def look(number: int) -> tuple[str, str, Any]:
    """Return what tells a series from others, in colour and without: colour, marker and line."""
    number %= len(COLOURS)
    return COLOURS[number], MARKERS[number], LINES[number]


def refuse_many(number: int, what: str) -> None:
    """Refuse more series than there are looks."""
    if number > len(COLOURS):
        raise ParameterError(
            f"a figure can tell apart at most {len(COLOURS)} {what}; got {number}. Choose some."
        )


@cache
def _light() -> Any:
    """Return the settings of `light.mplstyle`."""
    from matplotlib import rc_params_from_file

    with as_file(files("tallyfold.report.plots") / "light.mplstyle") as file:
        return rc_params_from_file(file, use_default_template=False)


@contextmanager
def drawing(ax: Axes | None, size: tuple[float, float] = SIZE) -> Iterator[Axes]:
    """Give the axes to draw on: those given, or those of a new figure in the light style."""
    with drawing_panels(ax, 1, 1, size) as (panel,):
        yield panel


@contextmanager
def drawing_panels(
    ax: Any, number: int, columns: int, size: tuple[float, float], **sharing: Any
) -> Iterator[Panels]:
    """Give a number of axes to draw on, in reading order; new ones in `columns` columns."""
    import matplotlib
    from matplotlib.figure import Figure

    if ax is not None:
        panels = checked_panels(ax, number)
        with matplotlib.rc_context():
            yield panels
        return
    with matplotlib.rc_context(_light()):
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(-(-number // columns), columns, squeeze=False, **sharing).ravel()
        for beyond in panels[number:]:
            beyond.remove()
        for panel in panels[:number]:
            # ticks are made when the figure is drawn, out of this style
            panel.tick_params(which="both", color=PALE_INK, labelcolor=INK, labelsize=9)
        yield panels[:number]


def checked_panels(ax: Any, number: int) -> Panels:
    """Refuse anything but the wanted number of axes."""
    from matplotlib.axes import Axes

    given: Panels = np.asarray([ax] if isinstance(ax, Axes) else ax, dtype=object).ravel()
    if not all(isinstance(panel, Axes) for panel in given):
        raise ParameterError(f"`ax` must be matplotlib axes or None; got {ax!r}.")
    if len(given) != number:
        raise ParameterError(
            f"this figure has {number} panel{'s' * (number > 1)}, so `ax` must be as many axes; "
            f"got {len(given)}. Use figure.subplots({number}), or ax=None for a figure of its own."
        )
    return given


def finish(ax: Axes, title: str, x: str, y: str, how: dict[str, Any], grid: str = "x") -> None:
    """Write the title and the names of the axes, and leave out the lines that say nothing."""
    ax.set_title(title, loc="left", **how)
    ax.set_xlabel(x, **how)
    ax.set_ylabel(y, **how)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis=grid, color="#B0B0B0", alpha=0.5, linewidth=0.6)  # type: ignore[arg-type]
    ax.set_axisbelow(True)


def in_percent(axis: Axis, most: int = 7) -> None:
    """Write shares in per cent, at few places, so that they do not run into each other."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(most))
    axis.set_major_formatter(lambda share, _: f"{100 * share:.4g} %")


def add_legend(
    ax: Axes, handles: Sequence[Any], names: Sequence[str], how: dict[str, Any], **where: Any
) -> Legend:
    """Add a legend whose texts are shown as they are, those that begin with a `_` too."""
    legend = ax.legend(handles, [str(n) for n in range(len(names))], **where)
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set(text=name, **how)
    return legend


def add_legend_below(
    ax: Axes, handles: Sequence[Any], names: Sequence[str], how: dict[str, Any]
) -> None:
    """Add a legend under whatever stands below the axes."""
    from matplotlib.transforms import offset_copy

    figure: Any = ax.get_figure(root=True)
    figure.draw_without_rendering()  # so that it is known how far down the labels reach
    below = ax.xaxis.get_tightbbox()
    inches = 0.1 + (ax.get_window_extent().y0 - below.y0 if below else 0) / figure.dpi
    where = {
        "loc": "upper left",
        "bbox_to_anchor": (0, 0),
        "bbox_transform": offset_copy(ax.transAxes, figure, y=-inches),
        "borderaxespad": 0.0,
        "ncols": max(1, min(4, 80 // (8 + max(map(len, names))))),
    }
    add_legend(ax, handles, names, how, **where)


DARKER = {"#0072B2": "#00334F", "#D55E00": "#6B2F00", "#009E73": "#004F39"}


def value_limit(value_N: Floats, high_N: Floats) -> float:
    """Return where an axis of values ends: at all intervals but those far wider than most."""
    usual = max(float(value_N.max()), float(np.quantile(high_N, 0.8, method="lower")))
    widest = max(usual, float(high_N.max()))
    most = 1.05 * widest if widest <= 1.6 * usual else 1.25 * usual
    return most if most > 0 else 1.0


def horizontal_bars(
    ax: Axes, labels: Any, value_N: Floats, low_N: Floats, high_N: Floats, longest: int = LONGEST
) -> None:
    """Draw a bar per label, the first on top, and a whisker from low to high."""
    bars(ax, value_N, low_N, high_N, value_limit(value_N, high_N), upright=False)
    name_rows(ax, labels, longest)


def name_rows(ax: Axes, labels: Any, longest: int) -> None:
    """Write labels beside the rows of a figure, the first on top."""
    names, how = legible(labels, longest)
    ax.set_yticks(np.arange(len(names)), names, **how)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)


def bars(
    ax: Any,
    value_N: Floats,
    low_N: Floats,
    high_N: Floats,
    limit: float,
    colour: str = COLOURS[0],
    *,
    upright: bool = True,
) -> None:
    """Draw bars with whiskers; an arrow says where one ends that goes on beyond the axis."""
    place_N, ink = np.arange(len(value_N)), DARKER.get(colour, colour)
    turned = slice(None, None, 1 if upright else -1)  # x and y, or y and x
    draw_bars, draw_lines = (ax.bar, ax.vlines) if upright else (ax.barh, ax.hlines)
    draw_bars(place_N, value_N, 0.72, color=colour, alpha=0.55)
    ax.set(**{"ylim" if upright else "xlim": (0, limit)})
    if not np.any(high_N > low_N):
        return
    draw_lines(place_N, low_N, np.minimum(high_N, limit), color=ink, linewidth=1.4)
    dots: Any = (place_N, value_N)[turned]
    ax.plot(*dots, "o", color=ink, markersize=3.5)
    offset, side = ((4, -10), "left") if upright else ((-5, 5), "right")
    words: Any = {"textcoords": "offset points", "fontsize": 7.5, "ha": side, "va": "center"}
    for place in place_N[high_N > limit]:
        end: Any = (place, limit)[turned]
        ax.plot(*end, "^" if upright else ">", color=ink, markersize=6, clip_on=False)
        ax.annotate(f"to {high_N[place]:.2g}", end, offset, **words)


def read_numbers(
    frame: Any, numbers: Sequence[str], others: Sequence[str] = (), *, missing: bool = False
) -> pd.DataFrame:
    """Return columns of a frame, some of them finite numbers; with `missing` some may be absent."""
    import pandas as pd

    wanted = Request([*dict.fromkeys([*others, *numbers])])
    table: pd.DataFrame = read_columns(frame, wanted)[0].to_pandas()
    if not len(table):
        raise DataError("the table has no row; there is nothing to draw.")
    for name in numbers:
        column, values = table[name], pd.to_numeric(table[name], errors="coerce").astype(float)
        bad = ~np.isfinite(values) & ~(column.isna() & missing)
        if bad.any():
            rows = ", ".join(f"row {row}: {column[row]!r}" for row in np.flatnonzero(bad)[:5])
            raise DataError(
                f"column {name!r} must hold finite numbers; got {int(bad.sum()):,} rows without "
                f"one, {rows}. Drop or mend them."
            )
        table[name] = values
    return table


def has_column(frame: Any, name: str) -> bool:
    """Tell whether a frame has a column."""
    return name in getattr(frame, "columns", ())
