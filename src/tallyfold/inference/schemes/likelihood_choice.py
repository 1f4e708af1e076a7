"""Poisson or negative binomial: the one that predicts held-out cells better."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.fit.calibration import calibrate
from tallyfold.inference.schemes.cavi import CAVIStep, factors_of
from tallyfold.posterior.gamma_factors import completed_gammas, gamma_rate_moments
from tallyfold.posterior.predictive import matched_mixture
from tallyfold.probability.counts import CountLikelihood

SWEEPS = 30
CELLS = 100_000
HELD_OUT_CELLS = 4_000
"""Even samples of at most so many cells are enough to choose between two."""
LEAST_GAIN = 2.0
"""In nats over the held-out cells used; what gains less is noise, and Poisson is simpler."""


def better_likelihood(sweeps: CAVIStep) -> CAVIStep:
    """Sweep a few times with each family; return the step whose calibrated score is better."""
    truncated, cells = sweeps.likelihood.truncated, sweeps.cells
    thin = cells.every(-(-cells.n_cells // CELLS))
    some = TrainingCells.of(cells.shape, cells.indices_NM[thin], cells.counts_N[thin], cells.group)
    plain = replace(sweeps, likelihood=CountLikelihood("poisson", truncated))
    dispersed = replace(sweeps, likelihood=CountLikelihood("negative-binomial", truncated))
    gain = _score(replace(dispersed, cells=some)) - _score(replace(plain, cells=some))
    return dispersed if gain > LEAST_GAIN else plain


def _score(step: CAVIStep) -> float:
    """Return the total log predictive of held-out cells after a few sweeps, calibrated."""
    assert step.validation is not None
    state = step.start()
    for iteration in range(1, SWEEPS + 1):
        state, _ = step.advance(state, iteration)
    held_out, joined = step.validation.cells, step.cells.group.all_gather
    thin = held_out.every(-(-held_out.n_cells // HELD_OUT_CELLS))
    cells_NM = np.asfortranarray(joined(held_out.indices_NM[thin]))
    counts_N = joined(held_out.counts_N[thin])
    known = [completed_gammas(*p) for p in zip(*factors_of(state), step.cells.seen, strict=True)]
    moments = gamma_rate_moments([s for s, _ in known], [r for _, r in known], cells_NM)
    r = float(state["dispersion"]) if step.likelihood.dispersed else None
    calibration = calibrate(counts_N, *moments, step.likelihood, r)
    predictive = matched_mixture(*moments, step.likelihood, r, calibration)
    return float(predictive.log_pmf(counts_N).sum())
