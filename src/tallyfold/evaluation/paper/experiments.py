"""Every experiment of the paper by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tallyfold.evaluation.paper.ablation import ablation
from tallyfold.evaluation.paper.complexity import complexity
from tallyfold.evaluation.paper.qualitative import qualitative
from tallyfold.evaluation.paper.reconstruction import loglik, mae
from tallyfold.evaluation.paper.setting import Reproduction, Setting
from tallyfold.evaluation.paper.subsampling import sub_sampling
from tallyfold.evaluation.paper.synthetic_rank import synthetic_rank
from tallyfold.evaluation.paper.synthetic_recovery import synthetic_recovery
from tallyfold.evaluation.paper.word_coherence import coherence


class PaperExperiment(NamedTuple):
    """One experiment: how it is run, what it asks, where the paper has it, if it takes data."""

    run: Callable[[Setting], Reproduction]
    asks: str
    place: str
    takes_data: bool = True


EXPERIMENTS: dict[str, PaperExperiment] = {
    "synthetic-rank": PaperExperiment(
        synthetic_rank, "Is the true number of components found?", "Figure 8a", takes_data=False
    ),
    "synthetic-recovery": PaperExperiment(
        synthetic_recovery, "Are the true parameters found?", "Figure 8b", takes_data=False
    ),
    "mae": PaperExperiment(mae, "Mean absolute error of six models", "Table 2"),
    "loglik": PaperExperiment(loglik, "Log-likelihood of six models", "Table 3"),
    "ablation": PaperExperiment(ablation, "What does reweighting bring?", "Table 4"),
    "subsample": PaperExperiment(sub_sampling, "What remains with little data?", "Figure 9"),
    "coherence": PaperExperiment(coherence, "Do similar words go together?", "Table 5"),
    "qualitative": PaperExperiment(qualitative, "What do the factors look like?", "Figures 10, 11"),
    "complexity": PaperExperiment(complexity, "What does an iteration cost?", "Section 7.2.4"),
}
"""Names, in the paper's order."""
