"""Every kernel in plain NumPy, float64: obvious and slow. The fused ones must agree with it.

Shares are taken in logarithms, so that no rate is too small or too large. Arguments and results
are documented in :mod:`tallyfold.kernels.dispatch`, whose functions call these.
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp

from tallyfold.kernels.arrays import Factors, Floats, Ints, Positions, Whole
from tallyfold.kernels.evidence import Layers
from tallyfold.kernels.layout import AxisLayout, entities
from tallyfold.kernels.likelihoods import (
    checked_dispersion,
    expected_exposure,
    log_constants,
    log_normaliser,
)

LOG_CAP = np.log(1e290)
"""Rates and the terms of cells are kept within exp(-LOG_CAP)..exp(LOG_CAP): sums stay finite."""

Columns = Sequence[Whole]


def cell_rates(factors: Factors, indices_NM: Positions) -> Floats:
    """Sum over components the product of the axes' factors at each cell."""
    gathered = [factor_DK[i_N] for factor_DK, i_N in zip(factors, indices_NM.T, strict=True)]
    return np.asarray(np.multiply.reduce(gathered).sum(axis=1))


def axis_sums(factors: Factors, layout: AxisLayout, weight_N: Floats) -> Floats:
    """Sum, per entity, weight times the other axes' product."""
    columns = _columns(layout)
    gathered = [factors[m][columns[m]] for m in range(len(factors)) if m != layout.axis]
    product_NK = np.multiply.reduce(gathered)
    return _sum_by_entity(layout, weight_N[layout.order_N, None] * product_NK)


def share_sums(factors: Factors, layout: AxisLayout, floor: float) -> Floats:
    """Sum, per entity, count times the other axes' product over the rate."""
    return _sum_by_entity(layout, _shares(factors, layout, floor))


def bptf_axis_sums(
    geo: Factors,
    mean: Factors,
    layout: AxisLayout,
    likelihood: str,
    dispersion: float | None,
) -> tuple[Floats, Floats]:
    """Sum, per entity, shares by `geo` and exposures by `mean`."""
    columns = _columns(layout)
    r = checked_dispersion(likelihood, dispersion)
    rate_N = _rate(_log_product(mean, columns))
    seen_N = expected_exposure(likelihood, rate_N, layout.counts_N, r)
    other_NK = _log_product(mean, columns, without=layout.axis)
    exposure_NK = np.exp(np.minimum(np.log(seen_N)[:, None] + other_NK, LOG_CAP))
    return _sum_by_entity(layout, _shares(geo, layout, 0.0)), _sum_by_entity(layout, exposure_NK)


def cell_bound(
    geo: Factors,
    mean: Factors,
    indices_NM: Positions,
    counts_N: Ints,
    likelihood: str,
    dispersion: float | None,
) -> float:
    """Sum the collapsed bound over cells, including all constants."""
    r = checked_dispersion(likelihood, dispersion)
    seen_N = counts_N > 0
    gain_N = np.zeros(len(counts_N))
    gain_N[seen_N] = logsumexp(_log_product(geo, list(indices_NM[seen_N].T)), axis=1)
    rate_N = _rate(_log_product(mean, list(indices_NM.T)))
    bound_N = counts_N * gain_N - log_normaliser(likelihood, rate_N, counts_N, r)
    return float(bound_N.sum()) + log_constants(counts_N, likelihood, r)


def allocate_axis(factors: Factors, layout: AxisLayout, seed: int, iteration: int) -> Ints:
    """Split every count over components at random; sum per entity.

    Cells are drawn in their original order, so that every axis's layout sees the same draws.
    """
    log_NK = _log_product(factors, _columns(layout))
    log_NK[np.all(log_NK == -np.inf, axis=1)] = 0.0
    share_NK = np.exp(log_NK - logsumexp(log_NK, axis=1, keepdims=True))
    share_NK /= share_NK.sum(axis=1, keepdims=True)
    back_N = np.argsort(layout.order_N)
    rng = np.random.default_rng([seed, iteration])
    drawn_NK = rng.multinomial(layout.counts_N[back_N].astype(np.int64), share_NK[back_N])
    sums_DK = np.zeros((len(layout.indptr_D1) - 1, share_NK.shape[1]), dtype=np.int64)
    np.add.at(sums_DK, entities(layout), drawn_NK[layout.order_N])
    return sums_DK


def evidence_weights(net: Layers, x_2N: Floats) -> Floats:
    """Return the two weights of each cell, (2, N)."""
    return np.asarray(np.logaddexp(_evidence_layers(net, x_2N)[0], 0.0))


def evidence_gradient(net: Layers, x_2N: Floats, slope_2N: Floats) -> Floats:
    """Return the gradient of sum(slope * weights) with respect to the network."""
    inner_2N, hidden_NH = _evidence_layers(net, x_2N)
    inner_slope_2N = slope_2N * np.exp(-np.logaddexp(-inner_2N, 0.0))
    hidden_slope_NH = (inner_slope_2N.T @ net.out_H2.T) * (hidden_NH > 0)
    parts = (
        x_2N @ hidden_slope_NH,
        hidden_slope_NH.sum(axis=0),
        (inner_slope_2N @ hidden_NH).T,
        inner_slope_2N.sum(axis=1),
    )
    return np.concatenate([np.ravel(part) for part in parts])


def _evidence_layers(net: Layers, x_2N: Floats) -> tuple[Floats, Floats]:
    """Return what goes into the softplus, and the hidden units."""
    hidden_NH = np.maximum(x_2N.T @ net.into_2H + net.hidden_H, 0.0)
    return (hidden_NH @ net.out_H2 + net.bias_2).T, hidden_NH


def _columns(layout: AxisLayout) -> Columns:
    """Return the cells' positions on every axis, in the layout's order."""
    columns = list(layout.others_NJ.T)
    columns.insert(layout.axis, entities(layout))
    return columns


def _log_product(factors: Factors, columns: Columns, without: int | None = None) -> Floats:
    """Return ln of the product over axes at each cell; -inf where a factor is zero."""
    with np.errstate(divide="ignore"):
        logs = [np.log(factor_DK) for factor_DK in factors]
    gathered = [logs[m][columns[m]] for m in range(len(factors)) if m != without]
    return np.asarray(np.add.reduce(gathered))


def _rate(log_NK: Floats) -> Floats:
    """Return the rate, kept away from zero and infinity."""
    return np.asarray(np.exp(np.clip(logsumexp(log_NK, axis=1), -LOG_CAP, LOG_CAP)))


def _shares(factors: Factors, layout: AxisLayout, floor: float) -> Floats:
    """Return count times the other axes' product over the rate; zero where the rate is zero."""
    columns = _columns(layout)
    log_rate_N = logsumexp(_log_product(factors, columns), axis=1)
    with np.errstate(divide="ignore"):
        log_rate_N = np.maximum(log_rate_N, np.log(floor))
        scale_N = np.log(layout.counts_N) - np.where(log_rate_N == -np.inf, np.inf, log_rate_N)
    other_NK = _log_product(factors, columns, without=layout.axis)
    return np.asarray(np.exp(np.minimum(scale_N[:, None] + other_NK, LOG_CAP)))


def _sum_by_entity(layout: AxisLayout, terms_NK: Floats) -> Floats:
    """Add up the rows that belong to the same entity."""
    entity_N, n_entities = entities(layout), len(layout.indptr_D1) - 1
    sums = [np.bincount(entity_N, term_N, minlength=n_entities) for term_N in terms_NK.T]
    return np.column_stack(sums)
