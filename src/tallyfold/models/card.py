"""A fitted model's card: what it is, what it was fitted to, how well it predicts, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tallyfold.data.axis_course import order_words
from tallyfold.data.markup import html_facts
from tallyfold.errors import printable
from tallyfold.models.explaining import beyond_main_effects
from tallyfold.models.fitted import EditRecord, Fitted
from tallyfold.models.scoring import with_axis
from tallyfold.posterior.count_head import CountHead
from tallyfold.posterior.factors import Factors
from tallyfold.posterior.margins import n_proper_subsets
from tallyfold.posterior.sampled_factors import AGREE, SampledFactors

if TYPE_CHECKING:
    from tallyfold.models.fitted_model import FittedModel

ENDS = {
    "converged": "it converged",
    "validation": "the validation score rose no more",
    "max_iter": "it reached max_iter, the most iterations allowed",
    "interrupted": "it was interrupted",
    "diverged": "it diverged; the last good iteration was kept",
}
"""Why a fit ended, in words."""
ZEROS = {
    "missing": "missing: cells without an entry are not known",
    "observed": "observed: cells without an entry are zeros",
}
"""What empty cells are to a model, in words."""


ACTIVE_PAIRS = "the gate says them, not the components; gate='none' leaves them to components"
HISTOGRAM = "the histogram of all counts"


def end_words(fitted: Fitted) -> str:
    """Say why a fit ended; one of a set length, such as a chain, ends as it should."""
    if fitted.reason == "max_iter" and "max_iter" not in fitted.parameters:
        return "all its iterations were made"
    return ENDS.get(fitted.reason, fitted.reason)


def fit_words(model: FittedModel) -> str:
    """Return how a fit went: its iterations, their time, and why it ended."""
    fitted = model.fitted_
    seconds = fitted.history[-1].seconds if fitted.history else 0.0
    return f"{len(fitted.history):,} iterations, {seconds:.1f} s: {end_words(fitted)}"


class Card:
    """What there is to know of a fitted model, for people and for programs.

    Attributes
    ----------
    facts
        Plain values, which JSON can hold.

    Examples
    --------
    >>> import tallyfold as tf
    >>> tensor = tf.simulate((30, 20, 10), n_components=2, density=0.3).tensor
    >>> card = tf.BPTF(n_components=2, max_iter=50, random_state=3).fit(tensor).card()
    >>> card.facts["seed"], card.facts["data"]["fingerprint"] == tensor.fingerprint()
    (3, True)
    >>> print(card)
    model: bptf
    axes: axis_0 30 x axis_1 20 x axis_2 10
    ...
    """

    def __init__(self, model: FittedModel) -> None:
        self.facts = facts_of(model)
        self._lines = _lines(model, self.facts)

    def __str__(self) -> str:
        return "\n".join(f"{name}: {printable(text)}" for name, text in self._lines.items())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_facts(self._lines)


def facts_of(model: FittedModel) -> dict[str, Any]:
    """Return what there is to know of a fitted model, as plain values."""
    fitted, record = model.fitted_, model.fitted_.record
    return {
        "model": model.name,
        "axes": {axis.name: len(axis) for axis in fitted.axes},
        "bins": {axis.name: axis.unit for axis in fitted.axes if axis.unit is not None},
        "order": {axis.name: order_words(axis) for axis in fitted.axes if axis.order is not None},
        "zeros": fitted.parameters["zeros"],
        "gate": fitted.gate,
        "whether": whether_words(fitted),
        "how many": amount_words(fitted),
        "components": fitted.factors and beyond_main_effects(fitted.factors),
        "chains": chain_words(fitted.factors),
        "smooth": dict(fitted.smoothness),
        "forecasts": forecast_words(fitted),
        "parameters": fitted.parameters,
        "seed": fitted.parameters.get("random_state"),
        "iterations": len(fitted.history),
        "ended because": end_words(fitted),
        "seconds": fitted.history[-1].seconds if fitted.history else None,
        "validation score": fitted.validation_score,
        "data": {"fingerprint": record.data, "cells": record.cells, "total": record.total},
        "taken in": record.taken_in,
        "edits": [list(edit) for edit in fitted.edits],
        "held out": None if record.held_out is None else record.document()["held_out"],
        "versions": dict(record.versions),
    }


def _lines(model: FittedModel, facts: dict[str, Any]) -> dict[str, str]:
    """Return the facts for people; those that are not known, or not to the point, are left out."""
    record, seconds, score = model.fitted_.record, facts["seconds"], facts["validation score"]
    changed = changed_parameters(model)
    found = {
        "model": facts["model"],
        "axes": " x ".join(f"{name} {size:,}" for name, size in facts["axes"].items()),
        "bins": ", ".join(f"{name} by {unit}" for name, unit in facts["bins"].items()),
        "order": "; ".join(f"{name}: {words}" for name, words in facts["order"].items()),
        "zeros": ZEROS.get(facts["zeros"], facts["zeros"]),
        "gate": gate_words(model) or "",
        "active pairs": ACTIVE_PAIRS if facts["gate"] else "",
        "whether": facts["whether"] or "",
        "how many": facts["how many"] or "",
        "components": facts["components"] or "",
        "chains": facts["chains"] or "",
        "smooth": ", ".join(
            f"along {axis}, {each:.2f} alike from one step to the next"
            for axis, each in facts["smooth"].items()
        ),
        "forecasts": facts["forecasts"] or "",
        "parameters": ", ".join(f"{name}={value}" for name, value in changed.items()),
        "seed": "" if facts["seed"] is None else str(facts["seed"]),
        "iterations": f"{facts['iterations']}" + ("" if seconds is None else f", {seconds:.1f} s"),
        "ended because": facts["ended because"],
        "validation score": "" if score is None else f"{score:.4g}",
        "data": f"{record.cells:,} cells, total {record.total:,}, fingerprint {record.data}",
        "taken in since": f"{record.taken_in:,} cells" if record.taken_in else "",
        "edits": "; ".join(map(_edit_words, model.fitted_.edits)),
        **_score_lines(model),
        "versions": ", ".join(f"{name} {number}" for name, number in record.versions.items()),
    }
    if not record.data:
        del found["data"]
    return {name: text for name, text in found.items() if text}


def _edit_words(edit: EditRecord) -> str:
    """Say what was done to components, and what that changed."""
    if edit.before is None or edit.after is None:
        return edit.what
    return f"{edit.what} (score {edit.before:.4f} before, {edit.after:.4f} after)"


def _score_lines(model: FittedModel) -> dict[str, str]:
    held_out = model.fitted_.record.held_out
    if held_out is None:
        return {}
    of = "of a fit to the other cells" if held_out.refitted else "which the fit has not seen"
    found = {"held-out scores": f"on {held_out.cells:,} cells, {of}"}
    for metric in next(iter(held_out.scores.values()), {}):
        known = [
            f"{printable(name)} {scores[metric]:.4f}"
            for name, scores in held_out.scores.items()
            if scores.get(metric) is not None
        ]
        if known:
            found[f"  {printable(with_axis(metric, model.axes_))}"] = ", ".join(known)
    return found


def changed_parameters(model: FittedModel) -> dict[str, str]:
    """Return the parameters of a fit that are not the model's defaults, as text."""
    defaults = type(model)().get_params()  # type: ignore[attr-defined]
    texts = {name: text_of(value) for name, value in model.fitted_.parameters.items()}
    return {name: text for name, text in texts.items() if text != text_of(defaults[name])}


def whether_words(fitted: Fitted) -> str | None:
    """Return what tells whether there is a count; None where the likelihood does."""
    if fitted.forecaster is not None and fitted.factors is None:
        rates = fitted.forecaster.rates
        corrected = "" if fitted.forecaster.network is None else ", corrected by a network"
        return None if rates is None else f"earlier periods: {rates.memory.words()}{corrected}"
    occurrence = fitted.occurrence
    if occurrence is None:
        return None

    def named(axes: Sequence[int]) -> str:
        return " × ".join(fitted.axes[axis].name for axis in axes)

    parts = ["factors"] if fitted.gate is None else ["factors", "a gate"]
    if occurrence.weights.power_S.any():
        parts.append("combinations of labels")
    near = occurrence.neighbours
    if near is not None:
        parts.append(f"the other {fitted.axes[near.axis].name} labels of its {named(near.others)}")
    return ", ".join(parts)


def forecast_words(fitted: Fitted) -> str | None:
    """Return what tells the periods after the last one; None for nothing."""
    found = fitted.forecaster
    if found is None or found.rates is None:
        return None
    axis = fitted.axes[found.history.axis].name
    corrected = "" if found.network is None else ", corrected by a network"
    return f"of {axis}, from a memory of all combinations ({found.rates.memory.words()}){corrected}"


def chain_words(factors: Factors | None) -> str | None:
    """Return how many draws of how many chains there are, and whether they agree."""
    if not isinstance(factors, SampledFactors):
        return None
    r_hat_K = factors.r_hat()
    told = f"{factors.n_chains} of {factors.n_draws // factors.n_chains} draws"
    if not np.isfinite(r_hat_K).all():
        return told
    agree = "they agree" if r_hat_K.max() <= AGREE else "more burn_in and n_draws may help"
    return (
        f"{told}; R-hat of the components' shares {r_hat_K.min():.2f} to {r_hat_K.max():.2f}: "
        f"{agree}"
    )


def gate_words(model: FittedModel) -> str | None:
    """Return the axes of a model's gate; None for a model that cannot have one."""
    parameters = model.fitted_.parameters
    gated = "gate" in parameters and parameters["zeros"] == "observed"
    return " × ".join(model.fitted_.gate or ("none",)) if gated else None


def amount_words(fitted: Fitted) -> str | None:
    """Return how counts of at least one are predicted; None for a model of means alone."""
    if fitted.forecaster is not None and fitted.factors is None:
        amounts = fitted.forecaster.amounts
        learned = amounts.numbers is not None
        return f"earlier periods: {amounts.memory.words()}" if learned else HISTOGRAM
    if fitted.head is not None:
        return _head_words(fitted.head, n_proper_subsets(len(fitted.axes)))
    likelihood = fitted.likelihood
    return None if likelihood is None else likelihood.name.replace("-", " ")


def _head_words(head: CountHead, n_sets: int) -> str:
    upper, used = head.bins.upper, len(head.tables)
    scale = "" if upper is None else f", on the scale {head.bins.lower_B[0]} to {upper}"
    some = "" if used == n_sets else f" of {used} of {n_sets} combinations of axes"
    return (f"learned from margins{some}" if head.stages else HISTOGRAM) + scale


def text_of(value: Any) -> str:
    """Return a parameter's value as text."""
    if isinstance(value, dict):  # seeds
        return "; ".join(
            f"{name}: " + ", ".join(f"{axis} {text_of(labels)}" for axis, labels in asked.items())
            for name, asked in value.items()
        )
    if isinstance(value, list | tuple):
        return ", ".join(
            " × ".join(map(str, each)) if isinstance(each, list | tuple) else str(each)
            for each in value
        )
    return str(value)
