"""When a phase of a fit ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Reason = Literal["converged", "validation", "max_iter", "interrupted", "diverged"]


@dataclass(frozen=True)
class StoppingRules:
    """When a phase ends.

    Attributes
    ----------
    max_iter
        At most `max_iter` iterations; None leaves it to the limit of the whole fit.
    tol
        A phase has converged when its objective changes by no more than `tol`, relative to its
        size; 0 switches this off.
    patience
        Stop when the validation score has not been better than the best of the whole fit for
        `patience` iterations, those of earlier phases counted; None switches this off.
    window
        With 1, a change is the difference of the last two objectives; with more, the standard
        deviation of the last `window`, for steps whose objective is noisy.
    min_iter
        Nothing but `max_iter` stops a phase before `min_iter` iterations.
    scheduled
        Whether `max_iter` iterations are all that was planned: a phase that makes them is done.
    warns
        Whether `max_iter` is the user's, so that a phase that comes to it is worth a warning.
    """

    max_iter: int | None = None
    tol: float = 0.0
    patience: int | None = 10
    window: int = 1
    min_iter: int = 2
    scheduled: bool = False
    warns: bool = False

    def reason(self, objectives: Sequence[float], since_best: int | None) -> Reason | None:
        """Return why a phase ends, given its objectives; None if it goes on.

        `since_best` is the number of iterations since the best validation score, None without one.
        """
        number = len(objectives)
        if self.max_iter is not None and number >= self.max_iter:
            return "converged" if self.scheduled else "max_iter"
        if number < self.min_iter:
            return None
        if since_best is not None and self.patience is not None and since_best >= self.patience:
            return "validation"
        if self.tol > 0 and self._has_converged(objectives):
            return "converged"
        return None

    def was_cut(self, objectives: Sequence[float], scores: Sequence[float | None]) -> bool:
        """Tell whether a phase that came to its limit would have gone on by another rule.

        One without another rule (no `tol`, and no validation scores or no `patience`) made all the
        iterations that it was to make.
        """
        known = [score for score in scores if score is not None]
        if known and self.patience is not None:
            if len(known) - 1 - int(np.argmax(known)) >= self.patience:
                return False
        elif self.tol == 0:
            return False
        return self.tol == 0 or not self._has_converged(objectives)

    def _has_converged(self, objectives: Sequence[float]) -> bool:
        last = np.array(objectives[-max(self.window, 2) :])
        change = np.std(last) if self.window > 1 else abs(last[-1] - last[0])
        enough = len(last) >= max(self.window, 2)
        return bool(enough and change <= self.tol * max(abs(last[-1]), 1e-12))
