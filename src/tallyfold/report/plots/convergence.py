"""How a fit went: objective and validation score by iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tallyfold.errors import DataError
from tallyfold.models.base import CountModel
from tallyfold.models.expected import checked_model
from tallyfold.report.history import comparable, validated
from tallyfold.report.plots.style import COLOURS, PALE_INK, Panels, drawing_panels, finish

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def convergence(model: CountModel, *, ax: Any = None) -> Panels:
    """Draw the objective of a fit, and its score on the validation cells, by iteration.

    A dashed line marks the iteration that was kept. The first steps of a fit, far below the rest,
    are left out of sight where they would hide how it ended. Phases that only prepare a later one,
    such as sweeps before encoders, have another objective, which is not drawn. Scores that do not
    compare have a panel each: of factors and of a count head or, in a fit of a complete log, of
    whether there is a count and of how many.

    Parameters
    ----------
    model
        A fitted model.
    ax
        Axes to draw on, as many as there are panels; None makes a figure.

    Returns
    -------
    numpy.ndarray
        A panel for the objective and, if cells were held out, one for each kind of score.

    Examples
    --------
    >>> import tallyfold as tf
    >>> tensor = tf.simulate((30, 20, 10), 2, density=0.3).tensor
    >>> model = tf.BPTF(n_components=2, max_iter=5).fit(tensor)
    >>> convergence(model).shape
    (2,)
    """
    history = checked_model(model).history_
    if not len(history):
        raise DataError(f"{type(model).__name__} was not fitted by iterations: it has no history.")
    history = history.astype({"validation": float})
    phases, complete = [*history["phase"]], model.fitted_.occurrence is not None
    kinds = {name: history[own] for name, own in validated(phases, complete).items()}
    kinds = {name: part for name, part in kinds.items() if part["validation"].notna().any()}
    per = "mean log pmf\nper " + ("count" if complete else "cell")
    height = 4.2 if len(kinds) < 2 else 6.0
    with drawing_panels(ax, 1 + len(kinds), 1, (6.4, height), sharex=True) as panels:
        later = history[comparable(phases)]
        _draw(panels[0], later, "objective", COLOURS[0], model.n_iter_)
        finish(panels[0], f"How the fit of {type(model).__name__} went", "", "objective", {}, "y")
        for panel, (name, part) in zip(panels[1:], kinds.items(), strict=True):
            _draw(panel, part, "validation", COLOURS[1], model.n_iter_)
            title = "Score on the validation cells" + (f": {name}" if name else "")
            finish(panel, title, "", per, {}, "y")
        panels[-1].set_xlabel("iteration")
    return panels


def _draw(ax: Axes, history: pd.DataFrame, column: str, colour: str, kept: int) -> None:
    from matplotlib.ticker import MaxNLocator

    known = history[history[column].notna()]
    x, y = known["iteration"].to_numpy(), known[column].to_numpy(np.float64)
    marker = "o" if len(x) <= 60 else None
    ax.plot(x, y, color=colour, marker=marker, markersize=3.5, linewidth=1.5)
    ax.set_ylim(*_in_sight(y))
    ax.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    if not x[0] <= kept <= x[-1]:  # an iteration of another phase
        return
    ax.axvline(kept, color=PALE_INK, linestyle="--", linewidth=1)
    back = kept > x.mean()
    ax.annotate(
        f"kept: {kept} ",
        (kept, 0.06),
        (-4 if back else 4, 0),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        ha="right" if back else "left",
        fontsize=8.5,
        color=PALE_INK,
    )


def _in_sight(y: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[float, float]:
    """Return limits that leave out early values far from where the fit ended."""
    y = y[np.isfinite(y)]
    late = y[len(y) // 4 :] if len(y) else np.zeros(1)
    low, high = float(late.min()), float(late.max())
    room = (high - low) or max(abs(high), 1.0) * 1e-3
    return max(float(y.min(initial=low)), low - room) - 0.08 * room, (
        min(float(y.max(initial=high)), high + room) + 0.08 * room
    )
