"""What a fitted model says of held-out cells: each thing worked out once, however many ask."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError, ParameterError
from tallyfold.models.base import CountModel
from tallyfold.probability.distribution import CountDistribution

Floats = npt.NDArray[np.float64]


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

    def __post_init__(self) -> None:
        for part in (self.test, self.train):
            if part is not None and not isinstance(part, CountTensor):
                raise ParameterError(
                    f"cells to score must be a CountTensor; got {type(part).__name__}."
                )
        if self.test.nnz == 0:
            raise DataError("the test tensor has no non-zero cell; there is nothing to score.")

    @property
    def counts(self) -> npt.NDArray[np.int64]:
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

    @cached_property
    def segments(self) -> tuple[Floats, Floats]:
        """Each count's probability given y >= 1, and that of a count no larger.

        The count's segment of the distribution function: how wide it is, and where it ends.
        """
        positive = self.positive
        return np.exp(positive.log_pmf(self.counts)), positive.cdf(self.counts)
