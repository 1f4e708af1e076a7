"""Models that are sampled by Markov chains, one or several."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from tallyfold.data.tensor import CountTensor
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.fit.loop import Outcome, Phase
from tallyfold.models.base import CountModel, Given


class ChainModel(CountModel):
    """A model whose further chains are fits to the same cells, each with a seed of its own.

    `history_` is that of the first chain; a count head is trained after it, once.
    """

    n_chains: int
    _others: list[Any]
    """The last states of further chains, while the model is being fitted."""

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
        self._others = []
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
