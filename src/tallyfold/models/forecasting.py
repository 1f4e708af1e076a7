"""Models that tell each period from those before it: memory, no factors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from tallyfold.data.axis import Axis
from tallyfold.data.tensor import CountTensor
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.fit.loop import Phase
from tallyfold.inference.fit.stopping import StoppingRules
from tallyfold.inference.past.learning import (
    AMOUNTS,
    AmountsStep,
    Candidate,
    DistancesStep,
    RatesStep,
    SeasonStep,
    smoothed_candidates,
)
from tallyfold.inference.past.network import PASSES, NetworkStep
from tallyfold.inference.past.periods import TimeAxis
from tallyfold.inference.past.state import PastState
from tallyfold.models.base import Given
from tallyfold.models.fitted import Fitted
from tallyfold.models.new_cells import TakesNewCells
from tallyfold.models.parameters import TEXT, Scale, Zeros, choose_likelihood
from tallyfold.models.time_axis import time_axis
from tallyfold.posterior.count_head import histogram_head
from tallyfold.posterior.forecaster import Forecaster
from tallyfold.posterior.history import History

Time = Annotated[str, TEXT]


def past_phases(
    tensor: CountTensor,
    time: TimeAxis,
    candidates: Sequence[Candidate],
    scale: Scale,
    *,
    observed: bool,
    network: bool = False,
) -> list[Phase]:
    """Return the phases that learn how the past of a tensor leads to its next period."""
    history = History.of(tensor.indices, tensor.counts, tensor.shape, time.number, time.step_D)
    values, times = np.unique(tensor.counts, return_counts=True)
    ends = tuple(scale) if isinstance(scale, list) else scale
    histogram = histogram_head(values, times, ends)  # type: ignore[arg-type]
    rates = RatesStep(tensor, history, time, candidates)
    amounts = AmountsStep(tensor, history, time, histogram, observed)
    phases = [Phase("amounts", amounts, amounts.start, _planned(len(AMOUNTS) + 1))]
    if observed:
        season, distances = SeasonStep(rates), DistancesStep(rates)
        phases = [
            Phase("past", rates, rates.start, _planned(len(candidates))),
            Phase("season", season, season.start, _planned(1)),
            *phases,
            Phase("distances", distances, distances.start, _planned(1)),
        ]
        if network:
            judged = NetworkStep(distances, judged=True)
            for name, step in (
                ("network judged", judged),
                ("network", replace(judged, judged=False)),
            ):
                phases.append(Phase(name, step, step.start, _planned(PASSES)))
    return phases


def _planned(number: int) -> StoppingRules:
    return StoppingRules(max_iter=number, tol=0.0, patience=None, scheduled=True)


def forecaster_of(state: PastState, phases: Sequence[Phase]) -> Forecaster:
    """Return what the phases of the past have learned."""
    amounts = next(p.step for p in phases if isinstance(p.step, AmountsStep))
    rates = next((p.step for p in phases if isinstance(p.step, RatesStep)), None)
    assert isinstance(amounts, AmountsStep)
    made = rates.made(state) if isinstance(rates, RatesStep) else None
    network = phases[-1].step
    correction = network.made(state) if isinstance(network, NetworkStep) else None
    part = amounts.tensor.part
    share = 1.0 if part is None else part.share
    return Forecaster(amounts.history, made, amounts.made(state), state.spread, correction, share)


@dataclass(kw_only=True, eq=False, repr=False)
class ForecastingModel(TakesNewCells):
    """Base of the models that remember: they differ by how a rate is made of history."""

    takes_hidden_for_zeros: ClassVar[bool] = False

    zeros: Zeros = "observed"
    time: Time = "auto"
    scale: Scale = "auto"

    @abstractmethod
    def _candidates_for(self, tensor: CountTensor, history: int) -> list[Candidate]:
        """Return the memories to choose from, given how many periods there are."""

    def _phases(self, cells: TrainingCells, held_out: CountTensor | None) -> Sequence[Phase]:
        raise NotImplementedError  # what is remembered is the tensor itself, see below

    def _phases_on(
        self, tensor: CountTensor, cells: TrainingCells, held_out: CountTensor | None
    ) -> Sequence[Phase]:
        time = time_axis(tensor, self.time)
        step_N = time.step_D[tensor.indices[:, time.number]]
        candidates = self._candidates_for(tensor, int(step_N.max() - step_N.min()) + 1)
        observed = self.zeros == "observed"
        network = self.get_params().get("network") == "auto"
        return past_phases(tensor, time, candidates, self.scale, observed=observed, network=network)

    def _result(
        self,
        state: PastState,
        phases: Sequence[Phase],
        axes: Sequence[Axis],
        cells: TrainingCells,
    ) -> Fitted:
        likelihood = choose_likelihood("poisson", None, self.zeros)
        forecaster = forecaster_of(state, phases)
        return Fitted(tuple(axes), None, likelihood, None, forecaster=forecaster)

    def _make_fitted(self, state: Any, axes: Sequence[Axis], cells: TrainingCells) -> Fitted:
        raise NotImplementedError  # `_result` has the phases


@dataclass(kw_only=True, eq=False, repr=False)
class SmoothedPast(ForecastingModel):
    """What happened before happens again: smoothed counts of combinations, with recency.

    The rate of a combination is that of its labels' recent margins, times how much more often than
    these it has had a count; both fade, and a combination with a short history falls back to
    smaller ones. Its few numbers are learned on the last training periods, the decays from a grid.

    Parameters
    ----------
    zeros
        Whether cells without an entry are ``"observed"`` zeros or ``"missing"``; then only how many
        there are is told.
    time
        The axis of time; ``"auto"``: the only one that has an order.
    network
        ``"auto"``: a small network on the memories of all combinations corrects the chance of a
        count, if it does so in later periods than those it was trained on, as beside the factors
        of `VAEBPTF`; ``"none"``: no network.
    scale
        The smallest and the largest value that counts can have, such as (1, 5) for stars;
        ``"auto"`` recognises a bounded scale, None never has one.

    Examples
    --------
    >>> import tallyfold as tf, pandas as pd
    >>> frame = pd.DataFrame({"who": [1, 2, 1, 1, 1, 2], "what": [1, 2, 1, 1, 2, 2],
    ...     "year": ["2001", "2001", "2002", "2003", "2003", "2004"]})
    >>> counts = tf.CountTensor.from_frame(frame, ["who", "what", "year"], bins={"year": "year"})
    >>> model = tf.SmoothedPast().fit(counts).forecast(1)
    >>> cells = pd.DataFrame({"who": [1, 1], "what": [1, 2], "year": "2005"})
    >>> often, once = model.probability(cells)
    >>> bool(often > once)
    True
    """

    name: ClassVar[str] = "smoothed-past"

    network: Literal["none", "auto"] = "none"

    def _candidates_for(self, tensor: CountTensor, history: int) -> list[Candidate]:
        return smoothed_candidates()


def remembered(tensor: CountTensor, time: str, scale: Scale, given: Given) -> Forecaster | None:
    """Return what is remembered beside the factors of a fit; None if it was interrupted."""
    model = SmoothedPast(time=time, scale=scale, network="auto")
    caveat = model._fit(tensor, given.inside("memory")._replace(groups=None))
    return model.fitted_.forecaster if caveat is None else None
