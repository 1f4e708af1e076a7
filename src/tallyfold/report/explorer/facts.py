"""How a model was fitted: its parameters, its history, its data."""

from __future__ import annotations

from typing import Any

import numpy as np

from tallyfold.data.tensor import CountTensor
from tallyfold.models.base import CountModel
from tallyfold.report.explorer.packing import rounded
from tallyfold.version import __version__

ENDS = {
    "converged": "it converged",
    "validation": "the validation score rose no more",
    "max_iter": "it reached max_iter, the most iterations allowed",
    "interrupted": "it was interrupted",
    "diverged": "it diverged; the last good iteration was kept",
}
"""Why a fit ended, in words."""


def fit_entry(model: CountModel) -> dict[str, Any]:
    """Return what the page says of the fit."""
    fitted = model.fitted_
    defaults = type(model)().get_params()
    likelihood = fitted.likelihood
    return {
        "model": type(model).__name__,
        "version": __version__,
        "parameters": [
            {"name": name, "value": _text(value), "default": _text(defaults[name]) == _text(value)}
            for name, value in fitted.parameters.items()
        ],
        "likelihood": likelihood and likelihood.name.replace("-", " "),
        "members": 1 + len(fitted.others),
        "iterations": fitted.n_iter,
        "ended": ENDS.get(fitted.reason, fitted.reason),
        "validation": rounded(fitted.validation_score),
        "history": [
            [each.number, rounded(each.objective, 7), rounded(each.validation, 7)]
            for each in fitted.history
        ],
        "seconds": rounded(fitted.history[-1].seconds, 3) if fitted.history else None,
    }


def data_entry(model: CountModel, train: CountTensor | None) -> dict[str, Any]:
    """Return what is known of the data: sizes always, counts if the training data are given."""
    entry: dict[str, Any] = {
        "axes": [{"name": axis.name, "size": len(axis)} for axis in model.axes_],
        "zeros": str(model.fitted_.parameters.get("zeros", "missing")),
        "train": None,
    }
    if train is not None:
        entry["train"] = {
            "cells": train.nnz,
            "total": int(train.total),
            "density": rounded(train.density),
            "ones": rounded(float(np.mean(train.counts == 1))) if train.nnz else None,
        }
    return entry


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(
            _text(each) if isinstance(each, str) else " × ".join(map(str, each)) for each in value
        )
    return str(value)
