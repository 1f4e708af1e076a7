"""Every experiment of the paper by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tallyfold.paper.held_out import ablation, coherence, loglik, mae
from tallyfold.paper.published import described
from tallyfold.paper.qualitative import qualitative
from tallyfold.paper.setting import Reproduction, Setting
from tallyfold.paper.sizes import complexity, sub_sampling
from tallyfold.paper.synthetic import synthetic_rank, synthetic_recovery

RUN: dict[str, Callable[[Setting], Reproduction]] = {
    "synthetic-rank": synthetic_rank,
    "synthetic-recovery": synthetic_recovery,
    "mae": mae,
    "loglik": loglik,
    "ablation": ablation,
    "subsample": sub_sampling,
    "coherence": coherence,
    "qualitative": qualitative,
    "complexity": complexity,
}


class PaperExperiment(NamedTuple):
    """One experiment: how it is run, what it asks, where the paper has it, if it takes data."""

    run: Callable[[Setting], Reproduction]
    asks: str
    place: str
    takes_data: bool


EXPERIMENTS = {
    name: PaperExperiment(RUN[name], one["asks"], one["place"], one.get("takes_data", True))
    for name, one in described().items()
}
"""Names, in the paper's order."""
