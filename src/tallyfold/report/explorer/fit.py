"""What the page says of a fit: how it went, what it was made of, and what it was scored on."""

from __future__ import annotations

from typing import Any

import numpy as np

from tallyfold.data.tensor import CountTensor
from tallyfold.models.base import CountModel
from tallyfold.models.card import (
    amount_words,
    changed_parameters,
    end_words,
    gate_words,
    text_of,
    whether_words,
)
from tallyfold.report.explorer.entities import rounded
from tallyfold.report.history import objective_runs, validated
from tallyfold.version import __version__


def fit_entry(model: CountModel) -> dict[str, Any]:
    """Return what the page says of the fit."""
    fitted = model.fitted_
    changed = changed_parameters(model)
    likelihood = fitted.likelihood
    phases = [each.phase for each in fitted.history]
    return {
        "model": type(model).__name__,
        "version": __version__,
        "parameters": [
            {"name": name, "value": text_of(value), "default": name not in changed}
            for name, value in fitted.parameters.items()
        ],
        "likelihood": likelihood and likelihood.name.replace("-", " "),
        "whether": whether_words(fitted),
        "gate": gate_words(model),
        "amount": None if fitted.head is None else amount_words(fitted),
        "members": 1 + len(fitted.others),
        "iterations": fitted.n_iter,
        "ended": end_words(fitted),
        "validation": rounded(fitted.validation_score),
        "history": [
            [each.number, rounded(each.objective, 7), rounded(each.validation, 7), each.phase]
            for each in fitted.history
        ],
        "objectives": [
            {"phase": run.phase, "from": run.start, "to": run.stop}
            for run in objective_runs(fitted.history)
        ],
        "scored": [
            {"name": name, "own": own}
            for name, own in validated(phases, fitted.occurrence is not None).items()
        ],
        "seconds": rounded(fitted.history[-1].seconds, 3) if fitted.history else None,
    }


def data_entry(model: CountModel, train: CountTensor | None) -> dict[str, Any]:
    """Return what is known of the data: sizes always, counts if the training data are given."""
    counts = None
    if train is not None:
        counts = {
            "cells": train.nnz,
            "total": int(train.total),
            "density": rounded(train.density),
            "ones": rounded(float(np.mean(train.counts == 1))) if train.nnz else None,
        }
    return {
        "axes": [{"name": axis.name, "size": len(axis)} for axis in model.axes_],
        "zeros": str(model.fitted_.parameters.get("zeros", "missing")),
        "train": counts,
    }
