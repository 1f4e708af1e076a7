"""What a fitted model says of held-out cells: each thing worked out once, however many ask."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tallyfold.data.empty_cells import EmptyCells, draw_empty_cells
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError, ParameterError
from tallyfold.evaluation.ranking import By, Lists, ranked_lists
from tallyfold.kernels.arrays import Floats, Ints
from tallyfold.models.base import CountModel
from tallyfold.models.scoring import (
    EMPTY_CELLS,
    CellScores,
    knows_zeros,
    log_zeros,
    scores_over_all_cells,
)
from tallyfold.probability.distribution import CountDistribution


@dataclass(frozen=True)
class Predictions:
    """A fitted model, cells to score it on, and what it says of them.

    Parameters
    ----------
    model
        A fitted model.
    test
        The cells it has not seen.
    train
        The cells it was fitted on, for scores that ask which cells are empty.
    along
        The axis whose labels are ranked by scores that do so; None for that with the most labels.
    n_empty
        How many empty cells to draw where `test` is a part of all cells, too many to list.

    Examples
    --------
    >>> import tallyfold as tf
    >>> train, test = tf.split(tf.simulate((30, 20, 10), 2, density=0.3).tensor)
    >>> predictions = Predictions(tf.Constant().fit(train), test)
    >>> len(predictions.mean) == test.nnz
    True
    """

    model: CountModel
    test: CountTensor
    train: CountTensor | None = None
    along: str | None = None
    n_empty: int = EMPTY_CELLS

    def __post_init__(self) -> None:
        for part in (self.test, self.train):
            if part is not None and not isinstance(part, CountTensor):
                raise ParameterError(
                    f"cells to score must be a CountTensor; got {type(part).__name__}."
                )
        if self.test.nnz == 0:
            raise DataError("the test tensor has no non-zero cell; there is nothing to score.")

    @property
    def counts(self) -> Ints:
        """The counts that were held out."""
        return self.test.counts

    @cached_property
    def mean(self) -> Floats:
        """The predicted means."""
        return np.asarray(self.model.predict(self.test, "mean"), float)

    @cached_property
    def median(self) -> Floats:
        """The predicted medians."""
        return np.asarray(self.model.predict(self.test, "median"), float)

    @cached_property
    def rate(self) -> Floats:
        """The rates: calibrated posterior means, before any truncation."""
        return self.model.rate(self.test)

    @cached_property
    def predictive(self) -> CountDistribution:
        """The predictive distributions."""
        return self.model.predictive(self.test)

    @property
    def positive(self) -> CountDistribution:
        """The predictive distributions given that the count is at least one."""
        return self.predictive.given_positive()

    @property
    def with_zeros(self) -> CountDistribution | None:
        """The predictive distributions of counts that may be zero; None if there are none."""
        return self.predictive.with_zeros()

    @property
    def knows_zeros(self) -> bool:
        """Whether the model says how probable a zero is: its zeros are observed."""
        return self.model.fitted_.has_distribution and knows_zeros(self.model, self.predictive)

    @cached_property
    def empty(self) -> EmptyCells | None:
        """Empty cells of the part that the test tensor is; None if it is not known which it is."""
        return None if self.test.part is None else draw_empty_cells(self.test, self.n_empty)

    @cached_property
    def log_zero(self) -> Floats | None:
        """The log probability of a zero in the empty cells."""
        if self.empty is None or not self.knows_zeros:
            return None
        return log_zeros(self.model, self.test, self.empty.indices_ZM, "error")

    @cached_property
    def over_all_cells(self) -> CellScores | None:
        """The scores of all cells of the part; None where nothing is known of its zeros."""
        if self.empty is None or self.log_zero is None:
            return None
        return scores_over_all_cells(self.predictive, self.test, self.empty, self.log_zero)

    @cached_property
    def lists(self) -> Lists:
        """How held-out cells stand among all labels of an axis."""
        by: By = "probability" if self.knows_zeros else "rate"
        return ranked_lists(self.model, self.test, self.known, k=20, along=self.along, by=by)

    @property
    def known(self) -> CountTensor:
        """The cells the model was fitted on; refused if they were not given."""
        if self.train is None:
            raise ParameterError(
                "`train` must be given for scores that rank cells: the empty cells are those that "
                "are neither in it nor in the test tensor. Give the "
                "counts the model was fitted on (train=, --train)."
            )
        return self.train

    @cached_property
    def segments(self) -> tuple[Floats, Floats]:
        """Each count's probability given y >= 1, and that of a count no larger.

        The count's segment of the distribution function: how wide it is, and where it ends.
        """
        positive = self.positive
        return np.exp(positive.log_pmf(self.counts)), positive.cdf(self.counts)
