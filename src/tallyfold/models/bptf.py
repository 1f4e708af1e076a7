"""BPTF: Bayesian Poisson tensor factorization by variational inference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from tallyfold.data.axis import Axis
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import ParameterError
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.fit.loop import Phase
from tallyfold.inference.fit.stopping import StoppingRules
from tallyfold.inference.schemes.cavi import CAVIState, CAVIStep
from tallyfold.inference.schemes.gate import Axes, gate_choice, possible_gates
from tallyfold.inference.schemes.guide import Guide
from tallyfold.models.complete_logs import Gate, gates_of, plain_gate, refuse_ignored_gate
from tallyfold.models.fitted import Fitted
from tallyfold.models.guided import GuidedModel
from tallyfold.models.parameters import NonNegative, PositiveInt


@dataclass(kw_only=True, eq=False, repr=False)
class BPTF(GuidedModel):
    """Bayesian Poisson tensor factorization: Gamma factors, found by variational inference.

    Parameters
    ----------
    n_components
        The number of components.
    zeros
        Whether cells without an entry are ``"missing"`` or ``"observed"`` zeros.
    likelihood
        ``"poisson"``, or ``"negative-binomial"`` for counts more dispersed than a Poisson's. With
        observed zeros the factors are always those of a Poisson, since only its sums over all
        empty cells are closed; calibration makes the predictive distribution negative binomial.
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
        predictive distribution is calibrated on them. With observed zeros a share of all cells,
        empty ones too.
    gate
        With observed zeros: the two axes whose pairs are active or not, such as author and year,
        so that components need not say so. ``"auto"`` chooses by held-out cells, ``"none"`` has no
        gate.
    amount
        The distribution of a count of at least one: ``"negative-binomial"``, the likelihood,
        calibrated on the validation cells; or ``"head"``, learned from the margins of all cells.
    scale
        For a head: the smallest and the largest value that counts can have, such as (1, 5) for
        stars; ``"auto"`` recognises a bounded scale, None never has one.
    seeds, seed_strength
        Labels that components should have, by axis and by the component's name, such as
        ``{"networking": {"word": ["socket", "server"]}}``; they pull ``"weak"``, ``"medium"`` or
        ``"strong"``, and lock nothing. ``"auto"`` finds seeds in the cells, for all labels of the
        axis with the largest baskets, such as words; the name of an axis finds them for it.
    background
        Whether one of the components, the last one, is what is common everywhere.
    smooth
        The axes that have an order along which components change little by little: the factors of
        a step are pulled to those of the last one, as strongly as the data say. ``"auto"``: all
        that have an order and go on; ``"none"``: no axis; or the strengths by axis, such as
        ``{"month": "auto"}``, or ``{"month": 0.9}`` for the correlation of one step and the next.
    random_state
        Seed of the random start and of the validation part. None draws
        one, which `random_state_` has.
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
    gate: Gate = "none"

    def _check(self, tensor: CountTensor, *rest: Any) -> None:
        super()._check(tensor, *rest)
        refuse_ignored_gate(self.gate, self.zeros, "none")
        if self.gate == "auto" and not self.validation:
            raise ParameterError(
                "gate='auto' chooses by held-out cells, of which there are none with "
                "validation=None. Name two axes, or give a `validation` share."
            )
        gates_of(self.gate, tensor)

    def _plain_parameters(self) -> dict[str, Any]:
        return super()._plain_parameters() | {"gate": plain_gate(self.gate)}

    def _lives_with_cells(self, axes: Sequence[Axis], axis: int) -> bool:
        return self.gate == "none" and super()._lives_with_cells(axes, axis)

    def _phases_on(
        self, tensor: CountTensor, cells: TrainingCells, held_out: CountTensor | None
    ) -> Sequence[Phase]:
        gates = () if self.gate == "none" else gates_of(self.gate, tensor)
        return self._phases(cells, held_out, gates, self._guide_for(tensor.axes, cells))

    def _phases(
        self,
        cells: TrainingCells,
        held_out: CountTensor | None,
        gates: Sequence[Axes | None] = (),
        guide: Guide | None = None,
    ) -> Sequence[Phase]:
        gates = possible_gates(gates, cells)
        step = self._sweeps(cells, held_out, self.n_components, self.likelihood, gates, guide)
        rules = StoppingRules(self.max_iter, self.tol, self.patience, warns=True)
        if len(gates) < 2 or held_out is None:
            return [Phase("sweeps", step, step.start, rules)]
        choice, begin = gate_choice(step)
        return [choice, Phase("sweeps", step, begin, rules)]

    def _result(
        self, state: CAVIState, phases: Sequence[Phase], axes: Sequence[Axis], cells: TrainingCells
    ) -> Fitted:
        sweeps = next(phase.step for phase in phases if isinstance(phase.step, CAVIStep))
        gated = replace(state, posterior=sweeps.gated(state))
        return self._make_fitted(gated, axes, cells)
