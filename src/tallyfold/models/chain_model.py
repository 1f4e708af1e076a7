"""Models that are sampled by Markov chains, one or several."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tallyfold.data.axis import Axis
from tallyfold.data.tensor import CountTensor
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.fit.loop import Outcome, Phase
from tallyfold.inference.fit.stopping import StoppingRules
from tallyfold.inference.schemes.gibbs import Part
from tallyfold.kernels.arrays import Floats
from tallyfold.models.base import CountModel, Given
from tallyfold.models.fitted import names_and_labels
from tallyfold.models.parameters import Backend, Count, PositiveInt, Seed, Share, Zeros
from tallyfold.posterior.point_factors import mean_over_seen
from tallyfold.posterior.sampled_factors import SampledFactors, matching_components


@dataclass(kw_only=True, eq=False, repr=False)
class ChainModel(CountModel):
    """A model whose further chains are fits to the same cells, each with a seed of its own.

    `history_` is that of the first chain; a count head is trained after it, once.
    """

    zeros: Zeros = "missing"
    truncated: bool | None = None
    burn_in: Count = 100
    n_draws: PositiveInt = 50
    thin: PositiveInt = 2
    n_chains: PositiveInt = 1
    validation: Share | None = 0.1
    random_state: Seed = 0
    backend: Backend = "auto"

    @abstractmethod
    def _chain(self, cells: TrainingCells, seed: int) -> Sequence[Phase]:
        """Return the phases of one chain."""

    def _phases(self, cells: TrainingCells, held_out: CountTensor | None) -> Sequence[Phase]:
        return self._chain(cells, self._chain_seed(0))

    def _chain_seed(self, number: int) -> int:
        """Return the seed of a chain; the first one's is the model's."""
        if number == 0:
            return self._seed
        return int(np.random.SeedSequence([self._seed, number]).generate_state(1)[0])

    def _run(
        self,
        phases: Sequence[Phase],
        data: str,
        cells: TrainingCells,
        given: Given,
    ) -> Outcome:
        """Run the chains one after the other; one that is interrupted is left out."""
        outcome = super()._run(phases, data, cells, given)
        self._others: list[Any] = []  # the last states of further chains, during a fit
        for number in range(1, self.n_chains):
            if outcome.reason == "interrupted":
                break
            own = self._chain(cells, self._chain_seed(number))
            more = super()._run(own, data, cells, given.inside(f"chain-{number}"))
            if more.reason == "interrupted":
                outcome = outcome._replace(reason="interrupted")
            else:
                self._others.append(more.state)
        return outcome

    def _fit(self, tensor: CountTensor, given: Given) -> str | None:
        self._others = []
        try:
            told = super()._fit(tensor, given)
            if told is None or self.n_chains == 1:
                return told
            return f"{told} It has {1 + len(self._others)} of {self.n_chains} chains."
        finally:
            del self._others

    def _draws(self, step: Any, begin: Callable[[Any], Any]) -> list[Phase]:
        """Return the phases of a chain: burn-in, then draws."""
        sampling = replace(step, part=Part(self.burn_in, self.thin))
        rules = StoppingRules(self.n_draws * self.thin)
        return [
            Phase("burn-in", step, begin, StoppingRules(self.burn_in)),
            Phase("draws", sampling, lambda state: state, rules),
        ]

    def _caveat(self, outcome: Outcome) -> str:
        if len(outcome.state.draws[0]):
            return ""
        return (
            f" It was still burning in (burn_in={self.burn_in}): there is one draw, and so no "
            "spread; its intervals mean nothing."
        )

    def _sampled(
        self, chains: Sequence[Sequence[Floats]], axes: Sequence[Axis], cells: TrainingCells
    ) -> SampledFactors:
        """Put the draws of chains together, and add labels.

        Components of further chains are put in the order of the first one's. Entities not seen get,
        draw by draw, the mean of those seen.
        """
        orders = [matching_components(chains[0], chain) for chain in chains]
        completed = []
        for number, seen_D in enumerate(self._informed(cells)):
            draws = [
                draw_DK
                for chain, order in zip(chains, orders, strict=True)
                for draw_DK in chain[number][..., order]
            ]
            completed.append(np.stack([mean_over_seen(draw_DK, seen_D) for draw_DK in draws]))
        return SampledFactors(*names_and_labels(axes), completed, len(chains))
