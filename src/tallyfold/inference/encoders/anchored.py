"""VAE-BPTF's anchored form: encoders that start at the conjugate update and learn to predict.

A fit has two parts. First come sweeps of BPTF (`inference.variational`). Then each iteration visits
every encoder once: first those of the multipliers of axis combinations, then those of the axes. A
visit computes the sums of all training cells, weighted by the encoder's network, and improves the
encoder's numbers by a few steps of L-BFGS on the log predictive of held-out cells, which are in no
sum. It is kept only if it predicts them better than before, so a fit cannot leave the rails; what
it cannot improve it leaves as it was.

This is not the evidence bound, whose own choice of the multipliers' priors shrinks them too much
under a truncated likelihood. Nor is it leave-one-out, unless asked for (`leave_one_out`): a cell
left out of its own sum alone still reaches itself through the other factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tallyfold.inference.cells.combinations import Combinations
from tallyfold.inference.cells.held_out import HeldOutCells
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.encoders.objective import N_PRIOR
from tallyfold.inference.encoders.trainer import Place
from tallyfold.inference.fit.loop import State
from tallyfold.inference.schemes.cavi import CAVIStep
from tallyfold.inference.schemes.svi import SVIStep
from tallyfold.kernels.evidence import conjugate_network

Floats = npt.NDArray[np.float64]

KEPT = "kept_"
"""Marks the arrays of the best sweep so far."""
MOST_CELLS = 20_000_000
"""Encoders are trained on the cells of all entities if these are no more than so many."""


@dataclass
class AnchoredStep:
    """Sweeps, then visits; see the module's text.

    Parameters
    ----------
    sweeps
        The BPTF step to start with; it has the cells, the likelihood and the priors.
    held_out
        Cells the encoders learn to predict; None leaves plain sweeps.
    combinations
        Of axes, whose multipliers are learnt.
    hidden_units, weight_variance, steps
        Of the networks: their size, the variance of the pull to their start, and the steps of
        L-BFGS in a visit.
    start_sweeps, patience
        At most so many sweeps before the first visit; fewer if held-out cells have not been
        predicted better for `patience` sweeps.
    caution
        A visit is kept if it gains more than so many standard errors.
    leave_one_out
        Train the encoders on the training cells, each left out of its own sum; what they learnt is
        still kept only if it predicts the held-out cells better.
    batch_entities, most_cells
        Train encoders, and sweep before that, on the cells of at most so many entities at a time,
        drawn at random (None: of all), which have at most so many cells, and on no axis more than
        so many entities of the longest axis have.
    """

    sweeps: CAVIStep
    held_out: HeldOutCells | None
    combinations: Sequence[Combinations] = ()
    hidden_units: int = 8
    weight_variance: float = 0.1
    steps: int = 5
    start_sweeps: int = 60
    patience: int = 10
    caution: float = 0.5
    leave_one_out: bool = False
    batch_entities: int | None = None
    most_cells: int = MOST_CELLS
    seed: int = 0

    maximise = True

    @property
    def cells(self) -> TrainingCells:
        """What is fitted to."""
        return self.sweeps.cells

    @property
    def most_at_once(self) -> tuple[int, int]:
        """How many entities an encoder is trained on, and how many cells they may have."""
        no_limit = np.iinfo(np.int64).max
        if self.leave_one_out:
            return no_limit, no_limit
        if self.batch_entities is None:
            return no_limit, self.most_cells
        # entities of a short axis have many cells each: let them have no more than a long one's
        usual = self.cells.n_cells * self.batch_entities // max(self.cells.shape)
        return self.batch_entities, min(self.most_cells, max(usual, 1))

    def start(self) -> State:
        """Start the sweeps, with encoders that are conjugate updates."""
        state = self.sweeps.start() | {"visits": np.array(0), "stale": np.array(0)}
        state["learning"] = np.array(int(self.held_out is not None))
        state["dispersed"] = np.array(int(self.sweeps.likelihood.dispersed))
        state |= {"score": np.array(-1e300), "calibration": np.array([1.0, 1.0, 0.0, 1.0])}
        for axis in range(self.cells.n_axes):
            state[f"encoder_{axis}"] = self.first_encoder(axis)
        for number, each in enumerate(self.combinations):
            state[f"effect_encoder_{number}"] = self.first_encoder(self.cells.n_axes + number)
            state[f"effect_axes_{number}"] = np.array(each.axes)
            state[f"effect_keys_{number}"] = each.keys_P
            state[f"effect_shape_{number}"] = np.ones(each.n_places)
            state[f"effect_rate_{number}"] = np.ones(each.n_places)
            state[f"effect_visits_{number}"] = np.array(0)
        return state

    def first_encoder(self, number: int) -> Floats:
        """Return the numbers an encoder starts with, and is pulled to."""
        rng = np.random.default_rng([self.seed, 3, number])
        numbers = np.concatenate([np.zeros(N_PRIOR), conjugate_network(self.hidden_units, rng)])
        if number < self.cells.n_axes:
            numbers[0] = np.log(self.sweeps.prior_shape)
        return numbers

    def advance(self, state: State, iteration: int) -> tuple[State, float]:
        """Sweep over the axes, or visit every encoder."""
        if self.held_out is None:
            new, bound = self.sweeps.advance(state, iteration)
            return state | new, bound
        if int(state["visits"]) == 0:
            return self._sweep(state, iteration)
        return self._visit_all(state)

    def validation_score(self, state: State) -> float | None:
        """Return the mean log predictive of the held-out cells; without encoders, the sweeps'."""
        if self.held_out is None:
            return self.sweeps.validation_score(state)
        if self.batch_entities is not None and int(state["visits"]) == 0:
            return None  # most entities were not looked at yet
        return float(state["score"])

    # -- sweeps -----------------------------------------------------------------------------------

    def _sweep(self, state: State, iteration: int) -> tuple[State, float]:
        """Sweep; after the last one, go on from the best."""
        if self.batch_entities is not None:
            return self._sweep_over_some(state, iteration)
        new, bound = self.sweeps.advance(state, iteration)
        score = self.sweeps.validation_score(new)
        assert score is not None
        kept = _without(state, KEPT)
        better = score > float(state["score"]) or not kept
        best = new if better else kept
        stale = 0 if better else int(state["stale"]) + 1
        if iteration >= self.start_sweeps or stale >= self.patience:
            rest = {name: value for name, value in state.items() if not name.startswith(KEPT)}
            return rest | best | {"visits": np.array(1)}, bound
        marks = {"stale": np.array(stale), "score": np.array(max(score, float(state["score"])))}
        return state | new | {KEPT + name: best[name] for name in new} | marks, bound

    def _sweep_over_some(self, state: State, iteration: int) -> tuple[State, float]:
        """Sweep over some entities; after the last time, update all."""
        assert self.batch_entities is not None
        sweeps = SVIStep(self.sweeps, self.batch_entities, self.most_cells, self.seed)
        new, bound = sweeps.advance(state, iteration)
        if iteration < self.start_sweeps:
            return state | new, bound
        new = sweeps.finished(state | new)
        score = self.sweeps.validation_score(new)
        assert score is not None
        return new | {"visits": np.array(1), "score": np.array(score)}, bound

    # -- visits -----------------------------------------------------------------------------------

    def _visit_all(self, state: State) -> tuple[State, float]:
        place = Place(self, dict(state))
        place.calibrate()
        for number in range(len(self.combinations)):
            place.visit_interaction(number)
        for axis in range(self.cells.n_axes):
            place.visit_axis(axis)
        place.state["visits"] = np.array(int(state["visits"]) + 1)
        place.state["score"] = np.array(max(place.score, float(state["score"])))
        return place.state, place.score


def warming_up(state: State) -> bool:
    """Tell whether the encoders were not visited yet, and will be."""
    return int(state["learning"]) == 1 and int(state["visits"]) < 2


def _without(state: State, prefix: str) -> State:
    """Return the arrays whose names have a prefix, without it."""
    return {n.removeprefix(prefix): value for n, value in state.items() if n.startswith(prefix)}
