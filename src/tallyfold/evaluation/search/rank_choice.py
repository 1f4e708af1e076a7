"""What a comparison of numbers of components comes to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tallyfold.errors import InferenceError
from tallyfold.evaluation.metrics import METRICS
from tallyfold.evaluation.search.cross_validation import difference_error, standard_error

if TYPE_CHECKING:
    import pandas as pd

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RankChoice:
    """Scores of models with few and many components, and the number to choose.

    Attributes
    ----------
    metric
        The score that was compared.
    one_standard_error
        Whether `chosen` is the smallest number that is not clearly worse than the best.
    scores
        A row per number of components and fold: the score, seconds, and the error of a fit that
        failed.
    folds
        How many there are; None for as many as `scores` has.
    interrupted
        Whether Ctrl-C came before all was tried.

    Examples
    --------
    >>> import tallyfold as tf
    >>> from tallyfold.evaluation.search.rank import select_rank
    >>> tensor = tf.simulate((30, 20, 10), n_components=2, density=0.3).tensor
    >>> choice = select_rank(tensor, (1, 2, 3), tf.BPTF(max_iter=30), folds=3)
    >>> choice.chosen
    2
    >>> choice.table.columns.tolist()[:4]
    ['components', 'mean', 'se', 'difference']
    """

    metric: str
    one_standard_error: bool
    scores: pd.DataFrame = field(repr=False)
    folds: int | None = None
    interrupted: bool = False

    @property
    def table(self) -> pd.DataFrame:
        """A row per number of components.

        Its mean score over the folds and that mean's standard error; by how much it is worse than
        the best, and the standard error of this, taken over the same folds; how many folds were
        scored and failed; and the seconds of all fits.
        """
        import pandas as pd

        return pd.DataFrame([self._row(number) for number in self._tried])

    @property
    def best(self) -> int:
        """The number of components with the best mean score; of equals, the smallest."""
        if not self._whole:
            errors = self.scores["error"].dropna()
            why = f" The first error: {errors.iloc[0]}" if len(errors) else ""
            raise InferenceError(f"no number of components was scored in every fold.{why}")
        losses = {number: float(np.mean(self._losses(number))) for number in self._whole}
        return min(losses, key=lambda number: (losses[number], number))

    @property
    def chosen(self) -> int:
        """The number of components to use."""
        if not self.one_standard_error:
            return self.best
        best = self.best
        return next(n for n in self._whole if n == best or np.less_equal(*self._behind(n)))

    @property
    def at_edge(self) -> bool:
        """Whether the chosen number is the largest that was tried: more may be better still."""
        return self.chosen == self._tried[-1]

    @property
    def _tried(self) -> list[int]:
        return sorted(self.scores["components"].unique().tolist())

    @property
    def _whole(self) -> list[int]:
        """The numbers that have a score in every fold: only they can be compared."""
        folds = self.scores["fold"].nunique() if self.folds is None else self.folds
        counts = self.scores.dropna(subset=["score"]).groupby("components").size()
        return [number for number in self._tried if counts.get(number, 0) == folds]

    def _losses(self, number: int) -> Floats:
        rows = self.scores[self.scores["components"] == number].sort_values("fold")
        return np.array([METRICS[self.metric].loss(score) for score in rows["score"]])

    def _behind(self, number: int) -> tuple[float, float]:
        """Return by how much a number is worse than the best, and the standard error of that."""
        difference_F = self._losses(number) - self._losses(self.best)
        return float(np.mean(difference_F)), difference_error(difference_F)

    def _row(self, number: int) -> dict[str, Any]:
        rows = self.scores[self.scores["components"] == number]
        values_F = rows["score"].dropna().to_numpy(float)
        behind = self._behind(number) if number in self._whole else (None, None)
        return {
            "components": number,
            "mean": float(np.mean(values_F)) if len(values_F) else None,
            "se": standard_error(values_F),
            "difference": behind[0],
            "difference_se": behind[1],
            "folds": len(values_F),
            "failed": int(rows["error"].notna().sum()),
            "seconds": float(rows["seconds"].sum()),
        }
