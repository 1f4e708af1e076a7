"""What VAE-BPTF's two forms take, and what they take it to be when nothing is said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallyfold.errors import ParameterError

LEARNT = ("predictive", "leave-one-out")
"""Objectives that train the anchored encoders."""

FORMS: dict[str, dict[str, Any]] = {
    "anchored": {
        "objective": "predictive",
        "likelihood": "poisson",
        "interactions": "auto",
        "hidden_layers": 1,
        "hidden_units": 8,
        "hidden_activation": "relu",
        "output_activation": "softplus",
        "weight_variance": 0.1,
        "steps": 5,
        "max_iter": 100,
        "tol": 3e-4,
        "reweight": "none",
        "encoders": "shared",
    },
    "paper": {
        "objective": "bound",
        "likelihood": "poisson",
        "interactions": "none",
        "hidden_layers": 1,
        "hidden_units": 20,
        "hidden_activation": "softplus",
        "output_activation": "softplus",
        "weight_variance": 1.0,
        "steps": 3,
        "max_iter": 300,
        "tol": 1e-3,
        "reweight": "paper",
        "encoders": "per-component",
        "theta": 5.0,
        "eta": 10.0,
        "typical_count": None,
        "learning_rate": 0.03,
        "average_last": 50,
    },
}
"""By encoder. A parameter left at None has the value here; one that is not here must be None."""

FIXED: dict[str, dict[str, tuple[Any, ...]]] = {
    "anchored": {
        "objective": (*LEARNT, "bound"),
        "hidden_layers": (1,),
        "hidden_activation": ("relu",),
        "output_activation": ("softplus",),
        "reweight": ("none",),
        "encoders": ("shared",),
    },
    "paper": {
        "objective": ("bound",),
        "interactions": ("none",),
        "likelihood": ("poisson", "negative-binomial"),
    },
}
"""The only values a form has for some parameters."""

WHY = {
    "reweight": "its networks learn what each count is worth, which takes the place of reweighting",
    "interactions": "the paper has no such effects",
    "objective": "its encoders are trained on the bound, as in the paper",
}


def settled(encoder: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a form, with its own values for those left at None."""
    form, fixed = FORMS[encoder], FIXED[encoder]
    other = next(name for name in FORMS if name != encoder)
    for name in FORMS["paper"]:
        if name not in form and given[name] is not None:
            raise ParameterError(
                f"`{name}` belongs to encoder={other!r}; got {given[name]!r} with "
                f"encoder={encoder!r}. Leave it at None, or use VAEBPTF.paper()."
            )
    values = {n: v if given[n] is None else given[n] for n, v in form.items()}
    for name, allowed in fixed.items():
        if values[name] not in allowed:
            words = " or ".join(repr(value) for value in allowed)
            reason = f": {WHY[name]}" if name in WHY else ""
            raise ParameterError(
                f"`{name}` must be {words} (or None) with encoder={encoder!r}{reason}; "
                f"got {values[name]!r}."
            )
    return values


def refuse_ignored(given: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Refuse parameters that the others leave without effect."""
    held_out = given["validation"] and given["zeros"] == "missing"
    learns = values["objective"] in LEARNT and held_out
    named = isinstance(given["interactions"], list | tuple) and given["interactions"]
    if named and not learns:
        raise ParameterError(
            "`interactions` has no effect here: multipliers are learnt from held-out cells only. "
            "Leave it at None, or use objective='predictive', zeros='missing' and a `validation` "
            "share."
        )
    if given["batch_entities"] is not None and not (learns and values["objective"] == "predictive"):
        raise ParameterError(
            "`batch_entities` is for encoder='anchored' with objective='predictive', "
            "zeros='missing' and a `validation` share."
        )
    if given["dispersion_axis"] is not None and not held_out:
        raise ParameterError(
            "`dispersion_axis` needs held-out cells to learn from: a `validation` share, and "
            "zeros='missing'."
        )
    if values["likelihood"] == "auto" and not held_out:
        raise ParameterError(
            "likelihood='auto' needs held-out cells to choose on: a `validation` share, and "
            "zeros='missing'."
        )
    if given["dispersion"] is not None and values["likelihood"] == "poisson":
        raise ParameterError(
            "`dispersion` belongs to a negative binomial; use likelihood='negative-binomial'."
        )
