"""One dispersion per entity of an axis, from held-out cells, shrunk toward the common one.

Some words come in bursts and some do not: the negative binomial's r may differ from entity to
entity. The logarithm of an entity's ratio to the common r has a normal prior whose width is chosen
by marginal likelihood; entities with few held-out cells stay near the common value.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from tallyfold.inference.distributed.process_group import ALONE, ProcessGroup
from tallyfold.probability.counts import COUNTS
from tallyfold.probability.mixture import CountMixture

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LOG_RATIOS_G = np.linspace(-2.4, 2.4, 17)
WIDTHS = (0.1, 0.3, 0.6, 1.2)


def entity_dispersions(
    predictive: CountMixture,
    counts_N: Ints,
    entity_N: npt.NDArray[np.integer],
    n_entities: int,
    group: ProcessGroup = ALONE,
) -> Floats:
    """Return ln(r of an entity / common r) for each entity, and a last one, zero, for unknown ones.

    Parameters
    ----------
    predictive
        The distributions of held-out cells with the common dispersion.
    counts_N, entity_N
        Their counts, and the entity that each belongs to.
    group
        The processes whose held-out cells count together.
    """
    told_GD = group.all_reduce(
        np.stack(
            [
                _by_entity(_scaled(predictive, g), counts_N, entity_N, n_entities)
                for g in LOG_RATIOS_G
            ]
        )
    )
    log_prior_WG = np.stack([-0.5 * (LOG_RATIOS_G / width) ** 2 for width in WIDTHS])
    log_prior_WG -= logsumexp(log_prior_WG, axis=1, keepdims=True)
    evidence_WD = logsumexp(told_GD + log_prior_WG[:, :, None], axis=1)
    best = int(np.argmax(evidence_WD.sum(axis=1)))
    weight_GD = np.exp(told_GD + log_prior_WG[best][:, None] - evidence_WD[best])
    return np.append(LOG_RATIOS_G @ weight_GD, 0.0)


def with_dispersions(
    predictive: CountMixture, log_ratio_D1: Floats, entity_N: npt.NDArray[np.integer]
) -> CountMixture:
    """Give each cell the dispersion of its entity; -1 is an entity never seen."""
    return _scaled(predictive, log_ratio_D1[entity_N])


def _scaled(predictive: CountMixture, log_ratio: Floats | float) -> CountMixture:
    if predictive.r is None:
        return predictive
    r = np.asarray(predictive.r) * np.exp(log_ratio)
    family = COUNTS["negative-binomial", predictive.likelihood.truncated]
    return CountMixture(family, predictive.rate_SN, r)


def _by_entity(
    predictive: CountMixture,
    counts_N: Ints,
    entity_N: npt.NDArray[np.integer],
    n_entities: int,
) -> Floats:
    return np.bincount(entity_N, predictive.log_pmf(counts_N), minlength=n_entities).astype(float)
