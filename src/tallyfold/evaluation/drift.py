"""Whether the last periods came as the ones before them led one to expect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tallyfold.data.axis import python_values
from tallyfold.data.period_cells import period_cells
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import ParameterError
from tallyfold.evaluation.period_scores import period_scores
from tallyfold.models.expected import checked_model
from tallyfold.models.fitted_model import FittedModel
from tallyfold.models.parameters import check_parameters, integer
from tallyfold.posterior.history import History

if TYPE_CHECKING:
    import pandas as pd

N_CELLS = 5_000
SCORES = ("occurrence", "amount", "total", "period actual", "period mean")
COLUMNS = ("occurrence", "amount", "total", "count", "expected")


def drift(model: FittedModel, periods: int = 8) -> pd.DataFrame:
    """Return how well each of the last periods was told from the ones before it.

    After `update` the last rows are those of the new periods: where their scores fall below all
    the others, what the model has learned no longer holds, and a new fit is due. Nothing but the
    model is needed, since it remembers all counts.

    Parameters
    ----------
    model
        A fitted model that remembers earlier periods, with observed zeros.
    periods
        How many of the last ones; those without any count are left out.

    Returns
    -------
    pandas.DataFrame
        A row per period, the last one last: log scores per cell with a count (`occurrence`,
        `amount` and their sum `total`; of all cells of labels that had a count before), the total
        `count` that came and the one `expected`.

    Examples
    --------
    >>> import tallyfold as tf
    >>> made = tf.simulate((20, 10, 8), 2, density=0.3, axes=["who", "what", "day"]).tensor
    >>> days = tf.Axis("day", list(range(8)), tf.AxisOrder("ordered"))
    >>> tensor = tf.CountTensor([*made.axes[:2], days], made.indices, made.counts)
    >>> drift(tf.SmoothedPast().fit(tensor), 2)["day"].tolist()
    [6, 7]
    """
    import pandas as pd

    check_parameters({"periods": periods}, {"periods": integer(1)})
    ahead = checked_model(model).forecast(1)
    forecaster = ahead.fitted_.forecaster
    assert forecaster is not None
    if forecaster.rates is None:
        raise ParameterError(
            f"this {type(model).__name__} was fitted with zeros='missing', so it does not tell "
            "whether there is a count. Fit with zeros='observed' to see its drift."
        )
    history = forecaster.history
    tensor = _remembered(ahead, history)
    step_D = history.step_D[:-1]
    known = np.unique(step_D[tensor.indices[:, history.axis]])
    axis = tensor.axes[history.axis]
    rows = []
    for step in known[known > 0][-periods:].tolist():
        cells = period_cells(tensor, history.axis, step_D, step, n=N_CELLS, most_listed=2 * N_CELLS)
        found = {
            s.metric: s.value for s in period_scores(ahead, cells, 1) if s.combinations == "all"
        }
        place = int(np.flatnonzero(step_D == step)[0])
        label = python_values(axis.labels[place : place + 1])[0]
        rows.append([label, *(found[metric] for metric in SCORES)])
    return pd.DataFrame(rows, columns=[axis.name, *COLUMNS])


def _remembered(ahead: FittedModel, history: History) -> CountTensor:
    """Return the counts of a history, on the axes that its model had."""
    table = history.whole
    others_EK = np.stack(np.unravel_index(table.key_E, history.sizes), axis=1)
    order = np.argsort(history.step_D, kind="stable")
    place_E = order[np.searchsorted(history.step_D[order], table.step_E)]
    indices_EM = np.insert(others_EK, history.axis, place_E, axis=1).astype(np.int32)
    axes = list(ahead.axes_)
    known = axes[history.axis]
    axes[history.axis] = known.take(np.arange(len(known) - 1))
    return CountTensor(axes, indices_EM, history.counts_E)
