"""What the page shows of the axis of time: its totals, and a ribbon of the next ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from tallyfold.evaluation.next_totals import ribbon
from tallyfold.models.base import CountModel
from tallyfold.report.explorer.entities import LEVEL, label_text, rounded

MOST_SHOWN = 120
"""Of so many of the last periods totals are shown."""
SHORTEST, LONGEST = 3, 12
"""How many periods ahead the ribbon goes at least and at most; between them an eighth of those
shown."""


def next_periods_entry(model: CountModel) -> dict[str, Any] | None:
    """Return totals of the last periods and what is expected of the next; None without memory."""
    forecaster = model.fitted_.forecaster
    if forecaster is None or forecaster.rates is None:
        return None
    history = forecaster.history
    known = history.n_periods
    shown = min(known, MOST_SHOWN)
    horizon = int(np.clip(shown // 8, SHORTEST, LONGEST))
    axis = model.forecast(horizon).axes_[history.axis]
    step_D = axis.steps() - axis.steps()[0] + history.step_D[0]
    label_of = dict(zip(step_D.tolist(), axis.labels.to_pylist(), strict=True))
    whole = history.totals[0]
    total_T = np.zeros(known)
    total_T[whole.step_E] = whole.sums_E2[:, 1] / forecaster.share
    last = int(step_D.max()) - horizon  # a label after the last count: nothing is known of it
    found = ribbon(forecaster, last + 1 + horizon - known, LEVEL)
    ahead = [
        [*(rounded(float(number)) for number in numbers)] for numbers in zip(*found, strict=True)
    ]
    return {
        "axis": axis.name,
        "share": forecaster.share,
        "known": [
            [_text(label_of, step), round(total_T[step])] for step in range(known - shown, known)
        ],
        "next": [[_text(label_of, known + n), *numbers] for n, numbers in enumerate(ahead)],
    }


def _text(label_of: dict[int, Any], step: int) -> str:
    """Return the label of a period; of one in a gap nothing."""
    return label_text(label_of[step]) if step in label_of else ""
