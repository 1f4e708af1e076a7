"""BPTF: Bayesian Poisson tensor factorization by variational inference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from tallyfold.data.tensor import CountTensor
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.fit.loop import Phase
from tallyfold.inference.fit.stopping import StoppingRules
from tallyfold.models.gamma_model import SweptModel
from tallyfold.models.parameters import NonNegative, PositiveInt


@dataclass(kw_only=True, eq=False, repr=False)
class BPTF(SweptModel):
    """Bayesian Poisson tensor factorization: Gamma factors, found by variational inference.

    Parameters
    ----------
    n_components
        The number of components.
    zeros
        Whether cells without an entry are ``"missing"`` or ``"observed"`` zeros.
    likelihood
        ``"poisson"``, or ``"negative-binomial"`` for counts more dispersed than a Poisson's.
    truncated
        Whether the likelihood is of counts of at least one. None: if zeros are missing, since a
        cell that is seen then has a count of at least one. False is the form of the literature.
    dispersion
        The negative binomial's r; None learns it.
    prior_shape, prior_rate
        Of the factors' Gamma prior. A rate of None is learnt, one per axis.
    max_iter, tol
        At most `max_iter` sweeps over the axes; fewer if the bound rises by less than `tol`,
        relative.
    validation, patience
        A share of the training cells to hold out (None: none). The sweep with the best score on
        them is kept, the fit ends when it has not improved for `patience` sweeps, and the
        predictive distribution is calibrated on them. Not used with ``zeros="observed"``.
    amount
        The distribution of a count of at least one: ``"negative-binomial"``, the likelihood,
        calibrated on the validation cells; or ``"head"``, learned from the margins of all cells.
    scale
        For a head: the smallest and the largest value that counts can have, such as (1, 5) for
        stars; ``"auto"`` recognises a bounded scale, None never has one.
    random_state
        Seed of the random start and of the validation part.
    backend, device
        What computes, and where. ``"numba"`` (compiled) and ``"numpy"`` use the CPU, ``"torch"``
        the device: ``"cpu"``, ``"cuda"`` or ``"cuda:1"``. ``"auto"`` chooses by size on the CPU,
        and is torch elsewhere. The device is that of the fit; predictions are made on the CPU.

    References
    ----------
    Schein, Paisley, Blei and Wallach, "Bayesian Poisson Tensor Factorization for Inferring
    Multilateral Relations from Sparse Dyadic Event Counts", KDD 2015.

    Examples
    --------
    >>> import tallyfold as tf
    >>> truth = tf.simulate((30, 20, 10), n_components=2, density=0.3)
    >>> train, test = tf.split(truth.tensor)
    >>> model = tf.BPTF(n_components=2, max_iter=50).fit(train)
    >>> bool(model.score(test) > tf.Constant().fit(train).score(test))
    True
    """

    name: ClassVar[str] = "bptf"
    n_components: PositiveInt = 10
    likelihood: Literal["poisson", "negative-binomial"] = "poisson"
    max_iter: PositiveInt = 200
    tol: NonNegative = 1e-5

    def _phases(self, cells: TrainingCells, held_out: CountTensor | None) -> Sequence[Phase]:
        step = self._sweeps(cells, held_out, self.n_components, self.likelihood)
        rules = StoppingRules(self.max_iter, self.tol, self.patience)
        return [Phase("sweeps", step, step.start, rules)]
