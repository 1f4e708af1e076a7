"""Whether what a folder holds can be the result of a fit, checked when a model is loaded.

Checksums tell a damaged folder from the one that was saved. They do not tell what another program,
or another person, has put together: arrays of shapes that point outside of each other, numbers that
make every prediction NaN. Those are refused here, when a model is loaded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tallyfold.kernels.arrays import Array, Floats, row_blocks
from tallyfold.models.fitted import Fitted
from tallyfold.models.forecaster_checks import check_forecaster
from tallyfold.models.head_checks import check_head, check_keys, check_occurrence, require
from tallyfold.posterior.component_names import checked_name
from tallyfold.posterior.derived_axis import DerivedAxis
from tallyfold.posterior.factors import Factors
from tallyfold.posterior.gamma_factors import GammaFactors
from tallyfold.posterior.named_arrays import Arrays
from tallyfold.posterior.point_factors import PointFactors
from tallyfold.posterior.predictive import Calibration
from tallyfold.posterior.sampled_factors import SampledFactors

LEFT_BY: dict[str, type[Factors] | None] = {
    "vae-bptf": GammaFactors,
    "vae-bptf-paper": GammaFactors,
    "bptf": GammaFactors,
    "main-effects": GammaFactors,
    "bptf-gibbs": SampledFactors,
    "online-gibbs": SampledFactors,
    "ptf-kl": PointFactors,
    "ntf-ls": PointFactors,
    "constant": PointFactors,
    "mlp-tf": None,
    "margins": None,
    "smoothed-past": None,
    "moving-average": None,
    "seasonal-naive": None,
    "last-value": None,
}
"""The kind of factors that each model leaves."""
REMEMBER = ("smoothed-past", "moving-average", "seasonal-naive", "last-value")
MOST_LOG_RATE = math.log(1e300)
MOST_LOG_SQUARE = math.log(1e200)
MOST_NETWORK_OUTPUT = 1e38
"""What rates, their squares and a network's output must stay below, whatever the cell."""
GAMMAS = (1e-250, 1e250)
DISPERSIONS = (1e-100, 1e100)
MOST_PARAMETER = 1e6
MOST_EXPONENT = 10.0


def check_loaded(fitted: Fitted, model: str) -> None:
    """Raise a ValueError that says what cannot be, if something cannot."""
    _check_course(fitted)
    _check_axes(fitted)
    wanted = LEFT_BY.get(model, type(fitted.factors))
    if fitted.factors is not None or wanted is not None:
        require(type(fitted.factors) is wanted, f"factors of another kind than a {model} has")
    for name, array in fitted.numbers().items():
        numbers = array.dtype.kind in "iuf" and all(
            bool(np.all(np.isfinite(block))) for (block,) in row_blocks(np.atleast_1d(array))
        )
        require(numbers, f"values of {name} that are no finite numbers")
    _check_predictive(fitted, model)
    log_square = 0.0
    if fitted.factors is not None:
        log_square += _check_factors(fitted.factors, fitted.axes)
    if isinstance(fitted.factors, GammaFactors):
        derived = fitted.factors.gammas.derived
        log_square += sum(_check_derived(each, fitted.axes) for each in derived)
        _check_widths(fitted.factors)
        _check_encoders(fitted, model)
    _check_edits(fitted)
    _check_range(log_square, fitted.calibration)
    _check_extra(fitted, model)
    if fitted.head is not None:
        check_head(fitted.head, fitted.axes)
    if fitted.occurrence is not None:
        require(isinstance(fitted.factors, GammaFactors), "no factors of whether there is a count")
        check_occurrence(fitted.occurrence, fitted.axes)
    require(model != "margins" or fitted.head is not None, "no count head")
    require(model not in REMEMBER or fitted.forecaster is not None, "no memory of earlier periods")
    if fitted.forecaster is not None:
        check_forecaster(fitted.forecaster, fitted.axes)
    for other in fitted.others:
        require(other.axes == fitted.axes and not other.others, "members of other axes")
        check_loaded(other, model)


def _is_number(value: object, *, low: float = -math.inf, high: float = math.inf) -> bool:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return known and math.isfinite(value) and low <= value <= high  # type: ignore[arg-type, operator]


def _check_course(fitted: Fitted) -> None:
    """Check how the fit went: nothing is computed from it, but it is shown."""
    require(isinstance(fitted.reason, str), "no word for why the fit ended")
    require(type(fitted.n_iter) is int and fitted.n_iter >= 0, "no number of iterations")
    score = fitted.validation_score
    require(score is None or _is_number(score), "a validation score that is no number")
    for each in fitted.history:
        last = each.validation is None or _is_number(each.validation)
        require(last and all(map(_is_number, each[:3])), "a history that is no numbers")


def _check_edits(fitted: Fitted) -> None:
    """Check what people have called components, and done to them: it is shown."""
    names, factors = fitted.component_names, fitted.factors
    require(not names or factors is not None, "names of components that are not there")
    if names and factors is not None:
        given = [checked_name(name) for name in names if name is not None]
        require(len(names) == factors.n_components, "names of other components")
        require(len(set(given)) == len(given), "components of the same name")
    stable = fitted.component_stability
    sound = all(each is None or _is_number(each, low=0, high=1) for each in stable)
    known = 0 if factors is None else factors.n_components
    require(sound and len(stable) in (0, known), "a stability that cannot be")
    for edit in fitted.edits:
        scores = all(each is None or _is_number(each) for each in edit[1:])
        require(isinstance(edit.what, str) and scores, "edits that are none")


def _check_axes(fitted: Fitted) -> None:
    names = {axis.name for axis in fitted.axes}
    require(len(names) == len(fitted.axes) >= 2, "axes that are none")
    require(min(len(axis) for axis in fitted.axes) > 0, "an axis without labels")


def _check_predictive(fitted: Fitted, model: str) -> None:
    likelihood, calibration = fitted.likelihood, fitted.calibration
    require(likelihood is not None or not model.startswith("vae-bptf"), "no likelihood")
    require(likelihood is None or isinstance(likelihood.truncated, bool), "no likelihood")
    low, high = DISPERSIONS
    for r in (fitted.dispersion, calibration.dispersion):
        require(r is None or _is_number(r, low=low, high=high), f"a dispersion of {r!r}")
    sound = (
        _is_number(calibration.scale, low=low, high=high)
        and _is_number(calibration.exponent, low=0, high=MOST_EXPONENT)
        and _is_number(calibration.spread, low=0, high=high)
        and _is_number(calibration.growth, low=-MOST_EXPONENT, high=MOST_EXPONENT)
    )
    require(sound, "a calibration that cannot be")


def _check_factors(factors: Factors, axes: Sequence[Any]) -> float:
    """Check the factors' shapes and signs; return the logarithm of the largest squared rate."""
    groups = _groups(factors)
    lead = groups[0][0].shape[:-2]
    components = groups[0][0].shape[-1] if groups[0][0].ndim else 0
    require(components > 0 and math.prod(lead) > 0, "no components")
    log_K = np.zeros(components)
    for axis, group in zip(axes, groups, strict=True):
        for array in group:
            shape = (*lead, len(axis) + 1, components)
            require(array.shape == shape, f"factors of {axis.name!r} of another size")
            require(array.dtype == np.float64, "factors of another type")
        log_K += np.max(
            [
                _log_second_moment(block).reshape(-1, components).max(axis=0)
                for block in row_blocks(*group)
            ],
            axis=0,
        )
    return float(log_K.max())


def _groups(factors: Factors) -> list[tuple[Array, ...]]:
    """Return the arrays of each axis."""
    if isinstance(factors, GammaFactors):
        return [(table.shape_DK, table.rate_DK) for table in factors.gammas.axes]
    values = factors.samples if isinstance(factors, SampledFactors) else factors.values  # type: ignore[attr-defined]
    return [(value,) for value in values]


def _log_second_moment(group: tuple[Array, ...]) -> Floats:
    """Return ln E[x**2] of values that must not be negative, or of Gammas that must be some."""
    if len(group) == 1:
        require(bool(np.all(group[0] >= 0)), "factors below zero")
        return 2 * np.log(np.maximum(group[0], np.finfo(float).tiny))
    shape, rate = group
    low, high = GAMMAS
    sound = np.min(group) >= low and np.max(group) <= high
    require(bool(sound), "Gamma shapes or rates that are not positive, or beyond all bounds")
    return np.asarray(2 * (np.log(shape) - np.log(rate)) + np.log1p(1 / shape))


def _check_derived(each: DerivedAxis, axes: Sequence[Any]) -> float:
    """Check multipliers; return the logarithm of the largest squared one."""
    numbers = range(len(axes))
    require(
        len(set(each.axes)) == len(each.axes) >= 2 and set(each.axes) <= set(numbers),
        "multipliers of axes that are not there",
    )
    sizes = tuple(len(axes[axis]) for axis in each.axes)
    require(each.sizes == sizes, "multipliers of axes of another size")
    keys = each.keys_P
    check_keys(keys, sizes)
    shape, table = (len(keys) + 1, 1), each.table
    arrays = [(table.shape_DK, shape), (table.rate_DK, shape), (table.widest_DK, shape)]
    for array, wanted in [*arrays, (each.typical_2, (2,))]:
        fits = array is None or (array.shape == wanted and array.dtype == np.float64)
        require(fits and (array is None or bool(np.all(array > 0))), "multipliers that are none")
    groups = [(table.shape_DK, table.rate_DK)]
    if each.typical_2 is not None:
        mean, typical = each.typical_2
        groups.append((np.array([typical]), np.array([typical / mean])))
    return max(float(_log_second_moment(group).max()) for group in groups)


def _check_widths(factors: GammaFactors) -> None:
    """Check the widest shapes of all axes: of each or of none."""
    tables = factors.gammas.axes
    known = [table for table in tables if table.widest_DK is not None]
    require(len(known) in (0, len(tables)), "widths of some axes only")
    for table in known:
        widest = table.widest_DK
        assert widest is not None
        positive = all(bool(np.all(block > 0)) for (block,) in row_blocks(widest))
        require(positive and widest.shape == table.shape_DK.shape, "widths that cannot be")


def _check_encoders(fitted: Fitted, model: str) -> None:
    encoders, factors = fitted.encoders, fitted.factors
    assert isinstance(factors, GammaFactors)
    if model != "vae-bptf":
        require(encoders is None, f"encoders that a {model} does not have")
        return
    if fitted.occurrence is not None and encoders is None:
        return
    number = len(factors.gammas.axes) + len(factors.gammas.derived)
    require(encoders is not None and len(encoders.params) == number, "encoders of other axes")
    assert encoders is not None
    sizes = {params.shape for params in encoders.params}
    layered = len(sizes) == 1 and all(len(s) == 1 and (s[0] - 2) % 5 == 2 for s in sizes)
    require(layered, "encoders of another size")
    bounded = all(bool(np.all(np.abs(params) <= MOST_PARAMETER)) for params in encoders.params)
    require(bounded, "encoders whose parameters are beyond all bounds")
    rates = encoders.prior_rate_M
    require(rates.shape == (len(fitted.axes),) and bool(np.all(rates > 0)), "priors of other axes")
    low, high = DISPERSIONS
    r = encoders.dispersion
    require(r is None or _is_number(r, low=low, high=high), f"a dispersion of {r!r}")


def _check_range(log_square: float, calibration: Calibration) -> None:
    log_rate = log_square / 2 * max(calibration.exponent, 1.0) + math.log(calibration.scale)
    require(log_square <= MOST_LOG_SQUARE and log_rate <= MOST_LOG_RATE, "rates beyond all bounds")


def _check_extra(fitted: Fitted, model: str) -> None:
    extra, axes = fitted.extra, fitted.axes
    if model == "mlp-tf":
        _check_network(extra, [len(axis) for axis in axes])
    components = 0 if fitted.factors is None else fitted.factors.n_components
    shapes = {"statistics": (3,), "component_weights": (components,), "n_known": (2,)}
    for name, shape in shapes.items():
        require(name not in extra or extra[name].shape == shape, f"{name} of another size")
    require(model != "constant" or "statistics" in extra, "no statistics")
    filled, known = extra.get("n_known", (1.0, 1.0))
    require(0 < filled <= known < math.inf, "numbers of cells that cannot be")


def _check_network(network: Arrays, sizes: Sequence[int]) -> None:
    """Check that the layers fit each other, and that no input makes the output too large."""
    tables = [network[f"embedding_{axis}"] for axis in range(len(sizes))]
    layers = sum(name.startswith("weight_") for name in network)
    weights = [network[f"weight_{layer}"] for layer in range(layers)]
    biases = [network[f"bias_{layer}"] for layer in range(layers)]
    require(layers > 0 and all(a.ndim == 2 for a in (*tables, *weights)), "no network")
    for table, size in zip(tables, sizes, strict=True):
        require(len(table) == size + 1, "embeddings of another size")
    widths = [sum(table.shape[1] for table in tables), *(weight.shape[1] for weight in weights)]
    layered = all(w.shape == pair for w, pair in zip(weights, pairwise(widths), strict=True))
    ends = all(b.shape == (w,) for b, w in zip(biases, widths[1:], strict=True))
    require(layered and ends and widths[-1] == 1, "layers that do not fit each other")
    most = max(float(np.abs(table).max(initial=0)) for table in tables)
    for weight, bias in zip(weights, biases, strict=True):
        sums = np.abs(weight.astype(float)).sum(axis=0) * most + np.abs(bias)
        most = float(sums.max(initial=0))
        require(most < MOST_NETWORK_OUTPUT, "a network whose output has no bounds")
