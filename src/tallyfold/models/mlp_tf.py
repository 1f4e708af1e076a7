"""MLP-TF: a multi-layer perceptron on embeddings, neural collaborative filtering of many axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from tallyfold.data.axis import Axis, axis_number
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import ParameterError
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.fit.loop import Phase
from tallyfold.inference.fit.stopping import StoppingRules
from tallyfold.inference.schemes.adam import Adam
from tallyfold.inference.schemes.network import NetworkStep, network_of, rates
from tallyfold.kernels.arrays import Floats, Positions
from tallyfold.models.base import CountModel
from tallyfold.models.fitted import Fitted
from tallyfold.models.parameters import (
    Count,
    NonNegative,
    Positive,
    PositiveInt,
    Seed,
    Share,
    Zeros,
    choose_likelihood,
)
from tallyfold.probability.counts import CountLikelihood

NEGATIVES = {"missing": 0, "observed": 3}
"""Empty cells drawn per non-zero, by the treatment of zeros, unless a number is given."""


@dataclass(kw_only=True, eq=False, repr=False)
class MLPTF(CountModel):
    """A network on one embedding per axis: neural collaborative filtering of many axes.

    It has no factors, so no components and no posterior; `vectors` gives its embeddings.

    Parameters
    ----------
    embedding_size, hidden_layers, hidden_units
        The length of an entity's embedding, and how many layers of how many ReLU units follow.
    loss
        ``"squared"`` predicts means only, cut off at zero. ``"poisson"`` makes the network's
        output a rate, so that there are scores, medians, intervals and samples.
    zeros
        Whether cells without an entry are ``"missing"`` or ``"observed"`` zeros.
    truncated
        With ``loss="poisson"``, whether the likelihood is of counts of at least one; None: if
        zeros are missing.
    negatives
        With observed zeros, how many empty cells to draw per non-zero in each epoch; None is 3.
        With missing zeros it can only be 0, or None.
    learning_rate, l2, batch_size
        The length of Adam's steps, the weight of the sum of squared parameters beside the sum of
        all cells' losses, and the cells per step.
    max_iter
        At most `max_iter` epochs.
    validation, patience
        A share of the cells to hold out (None: none). The epoch that is best on them is kept, and
        the fit ends when none has been better for `patience` epochs.
    random_state
        Seed of the start, the order of cells, the empty cells and the validation part. None draws
        one, which `random_state_` has.

    References
    ----------
    He, Liao, Zhang, Nie, Hu and Chua, "Neural Collaborative Filtering", WWW 2017.

    Examples
    --------
    >>> import tallyfold as tf
    >>> train, test = tf.split(tf.simulate((30, 20, 10), n_components=2, density=0.3).tensor)
    >>> model = tf.MLPTF(loss="poisson", hidden_layers=1, hidden_units=10, max_iter=3).fit(train)
    >>> bool(model.score(test) < 0)
    True
    """

    name: ClassVar[str] = "mlp-tf"

    embedding_size: PositiveInt = 20
    hidden_layers: PositiveInt = 2
    hidden_units: PositiveInt = 50
    loss: Literal["squared", "poisson"] = "squared"
    zeros: Zeros = "missing"
    truncated: bool | None = None
    negatives: Count | None = None
    learning_rate: Positive = 1e-3
    l2: NonNegative = 1e-3
    batch_size: PositiveInt = 4096
    max_iter: PositiveInt = 50
    validation: Share | None = 0.1
    patience: PositiveInt = 5
    random_state: Seed = 0

    def vectors(self, axis: str) -> Floats:
        """Return the embedding of each label of an axis."""
        number = axis_number(self.axes_, axis)
        table = self.fitted_.extra[f"embedding_{number}"][: len(self.axes_[number])]
        return np.asarray(table, np.float64)

    def _validation_share(self) -> float | None:
        return self.validation  # cells held out are never drawn as empty ones, so zeros do no harm

    def _phases(self, cells: TrainingCells, held_out: CountTensor | None) -> Sequence[Phase]:
        step = NetworkStep(
            cells=cells,
            held_out=held_out,
            likelihood=self._likelihood(),
            negatives=self._negatives(),
            embedding_size=self.embedding_size,
            hidden_layers=self.hidden_layers,
            hidden_units=self.hidden_units,
            learning_rate=self.learning_rate,
            l2=self.l2,
            batch_size=self.batch_size,
            seed=self._seed,
        )
        rules = StoppingRules(self.max_iter, 0.0, self.patience, warns=True)
        return [Phase("epochs", step, step.start, rules)]

    def _make_fitted(self, state: Adam, axes: Sequence[Axis], cells: TrainingCells) -> Fitted:
        return Fitted(
            axes=tuple(axes),
            factors=None,
            likelihood=self._likelihood(),
            dispersion=None,
            extra=network_of(state, cells.seen, self._negatives()),
        )

    def _moments(self, positions: Positions) -> tuple[Floats, Floats]:
        fitted = self.fitted_
        rate_N = rates(fitted.extra, positions, fitted.likelihood)
        return rate_N, np.zeros_like(rate_N)

    def _likelihood(self) -> CountLikelihood | None:
        if self.loss == "poisson":
            return choose_likelihood("poisson", self.truncated, self.zeros)
        if self.truncated is not None:
            raise ParameterError(
                f"`truncated` must be None with loss='squared', which has no likelihood; got "
                f"{self.truncated!r}. Leave it out, or use loss='poisson'."
            )
        return None

    def _negatives(self) -> int:
        if self.zeros == "missing" and self.negatives:
            raise ParameterError(
                f"`negatives` must be 0 or None with zeros='missing', where no cell is known to be "
                f"zero; got {self.negatives!r}. Leave it out, or use zeros='observed'."
            )
        return NEGATIVES[self.zeros] if self.negatives is None else self.negatives
