"""Complete logs: what a model does where cells without an entry are zeros."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Annotated, Any, Literal

import numpy as np

from tallyfold.data.axis import Axis
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import LabelError, ParameterError
from tallyfold.inference.distributed.process_group import current_group
from tallyfold.inference.encoders.information import occurrence_information, with_widths
from tallyfold.inference.fit.loop import Phase
from tallyfold.inference.occurrence.phases import gate_candidates
from tallyfold.inference.occurrence.step import LastPasses, OccurrenceState
from tallyfold.inference.schemes.gate import Axes
from tallyfold.models.fitted import Fitted, names_and_labels
from tallyfold.models.parameters import Rule
from tallyfold.posterior.derived_axis import countable
from tallyfold.posterior.gamma_factors import GammaFactors
from tallyfold.posterior.named_arrays import Arrays
from tallyfold.probability.counts import COUNTS
from tallyfold.scales import histogram, recognised_scale

_log = logging.getLogger("tallyfold")

PRIOR_SHAPE = 0.1
"""Of the factors where zeros are observed: with 1, most components would be switched off."""

Gate = (
    Literal["auto", "none"]
    | Annotated[
        Sequence[str],
        Rule(
            lambda value: (
                isinstance(value, list | tuple)
                and len(value) == 2
                and all(isinstance(name, str) for name in value)
            ),
            "a pair of axis names",
        ),
    ]
)


def zeros_of(tensor: CountTensor) -> Literal["missing", "observed"]:
    """Return whether empty cells are zeros: not those of ratings, values on a bounded scale.

    Examples
    --------
    >>> import tallyfold as tf
    >>> zeros_of(tf.simulate((30, 20, 10), n_components=2, density=0.3).tensor)
    'observed'
    """
    value_V, times_V = histogram(tensor.counts)
    group = current_group()
    if group.size > 1:
        all_V, row_V = np.unique(group.all_gather(value_V), return_inverse=True)
        times_V = np.bincount(row_V, group.all_gather(times_V)).astype(np.int64)
        value_V = all_V
    return "observed" if recognised_scale(value_V, times_V) is None else "missing"


CHOSEN = {
    "missing": "the values look like ratings, so cells without an entry are missing, not zeros",
    "observed": "the table is taken as complete, so cells without an entry are zeros",
}
"""What ``zeros="auto"`` has found, in words."""


def say_zeros(zeros: str, names: tuple[str, ...]) -> None:
    """Say how empty cells of a tensor with these axes are taken: once, in the first process."""
    if current_group().first:
        _say_zeros(zeros, names)


@cache
def _say_zeros(zeros: str, _names: tuple[str, ...]) -> None:
    other = "zeros='observed' takes" if zeros == "missing" else "zeros='missing' leaves"
    how = "them as zeros" if zeros == "missing" else "them open"
    _log.warning("zeros='auto': %s. %s %s.", CHOSEN[zeros], other, how)


def gates_of(gate: Any, tensor: CountTensor) -> list[Axes | None]:
    """Return the gates that a fit chooses from, as positions of axes."""
    if gate == "none":
        return [None]
    if isinstance(gate, str):
        return gate_candidates(tensor.shape)
    unknown = [name for name in gate if name not in tensor.names]
    if unknown:
        raise LabelError(f"there is no axis {unknown[0]!r}; there are {', '.join(tensor.names)}.")
    first, second = sorted(tensor.axis_number(name) for name in gate)
    if first == second or len(tensor.names) < 3:
        raise ParameterError(
            f"`gate` must be two different axes of three or more; got {list(gate)!r} of "
            f"{', '.join(tensor.names)}. gate='none' has no gate."
        )
    if not countable([tensor.shape[first], tensor.shape[second]]):
        raise ParameterError(f"there are too many pairs of {list(gate)!r} to number them.")
    return [(first, second)]


def refuse_ignored_gate(gate: Any, zeros: str, default: str, chosen: str = "") -> None:
    """Refuse a gate, other than the default, where it has no effect; `chosen` says why."""
    if gate != default and zeros == "missing":
        raise ParameterError(
            "`gate` has no effect with zeros='missing': where only cells with a count are "
            "seen, nothing says which pairs are active. Leave it out, or use zeros='observed'."
            f"{chosen}"
        )


def same_chance(n_filled: float, n_all: float) -> Arrays:
    """Return what a model keeps that gives all cells the same chance of a count.

    `n_filled` of the `n_all` cells that it knows have one.

    Examples
    --------
    >>> float(np.exp(same_chance(2, 8)["log_zero"][0]))
    0.75
    """
    log_zero = np.log(max(1 - n_filled / n_all, 1e-300))
    return {"log_zero": np.array([log_zero]), "n_known": np.array([n_filled, n_all], np.float64)}


def plain_gate(gate: Any) -> str | list[str]:
    """Return a gate as JSON knows it."""
    return gate if isinstance(gate, str) else list(gate)


def occurrence_result(
    state: OccurrenceState, phases: Sequence[Phase], axes: Sequence[Axis]
) -> Fitted:
    """Return the result of a fit of whether there is a count; the amount is filled in later."""
    last = next(phase.step for phase in phases if isinstance(phase.step, LastPasses))
    assert isinstance(last, LastPasses)
    gammas, occurrence = last.result(state)
    sweeps = last.sweeps
    wide = with_widths(gammas, sweeps.cells, occurrence_information, sweeps.prior_shape)
    gammas = replace(wide, derived=gammas.derived)
    factors = GammaFactors(*names_and_labels(axes), gammas)
    return Fitted(
        tuple(axes),
        factors,
        COUNTS["poisson", True],
        None,
        validation_score=state.score or None,
        occurrence=occurrence,
    )
