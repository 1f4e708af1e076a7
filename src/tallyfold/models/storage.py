"""Fitted models in folders."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tallyfold.data.store.label_files import write_record
from tallyfold.errors import ParameterError, StorageError
from tallyfold.inference.fit import large_files
from tallyfold.inference.fit.folder import read_folder, write_folder
from tallyfold.inference.fit.large_files import Large, Write, rows_writer
from tallyfold.models.base import CountModel
from tallyfold.models.fitted import Fitted
from tallyfold.models.load_checks import check_loaded
from tallyfold.models.parameters import check_parameters
from tallyfold.posterior.gamma_factors import GammaFactors
from tallyfold.posterior.named_arrays import Arrays
from tallyfold.version import __version__

KIND = "tallyfold-model"
VERSION, BEFORE_LARGE = 5, 4
"""Of the format; folders without large arrays, in files of their own, are of the version before."""
EARLIEST = {"vae-bptf": 2}
"""The first version of the format that a kind of model can be read from; 1 if not here."""


def save(model: CountModel, folder: str | os.PathLike[str]) -> None:
    """Save a fitted model; see `CountModel.save`."""
    arrays, large = _parted(model.fitted_)
    document = {
        "format": KIND,
        "version": VERSION if large else BEFORE_LARGE,
        "tallyfold": __version__,
        "model": model.name,
        "parameters": model.fitted_.parameters,
        "fitted": model.fitted_.document(),
    }
    write_folder(folder, document, arrays, large)


def _parted(fitted: Fitted) -> tuple[Arrays, Large]:
    """Return the arrays of a fit, and those that get files of their own, with their labels."""
    if not isinstance(fitted.factors, GammaFactors):
        return fitted.arrays(), {}
    tables = fitted.factors.gammas.axes
    long = [n for n, table in enumerate(tables) if table.shape_DK.nbytes >= large_files.LARGE]
    axes = [
        axis.take(np.zeros(0, int)) if n in long else axis for n, axis in enumerate(fitted.axes)
    ]
    arrays = replace(fitted, axes=tuple(axes)).arrays()
    large: dict[str, Write] = {
        f"labels_{n}.arrow": partial(write_record, fitted.axes[n].labels) for n in long
    }
    for name in [f"factors/{each}_{n}" for n in long for each in ("shape", "rate", "widest")]:
        if name in arrays:
            large[name] = rows_writer(arrays.pop(name))
    return arrays, large


def load(folder: str | os.PathLike[str]) -> Any:
    """Read a model back from the folder it was saved in.

    No code runs on loading: a folder holds a JSON document and plain arrays. Its predictions are
    the same, bit for bit. Factors and labels of long axes stay in their files: what is asked for is
    read.

    Parameters
    ----------
    folder
        Where `CountModel.save` put it.
    """
    from tallyfold.models.registry import MODELS

    document, arrays = read_folder(folder, KIND, VERSION)
    kind = MODELS.get(str(document.get("model")))
    if kind is None:
        raise StorageError(
            f"{str(folder)!r} holds a model of an unknown kind, {document.get('model')!r}; known "
            f"are {', '.join(MODELS)}."
        )
    if document["version"] < EARLIEST.get(kind.name, 1):
        raise StorageError(
            f"{str(folder)!r} holds a {kind.name} of version {document['version']} of the format, "
            f"written by tallyfold {document.get('tallyfold')}, which kept its encoders and "
            "intervals in another form. Fit the model again."
        )
    try:
        parameters = _current(document["parameters"], kind, document["version"])
        model = kind(**parameters)
        check_parameters(model.get_params(), kind.rules)
        if model.get_params()["zeros"] == "auto":
            raise ParameterError("`zeros` must be what a fit decided on; got 'auto'.")
    except (KeyError, TypeError, OverflowError, ParameterError) as error:
        raise StorageError(f"{str(folder)!r} is damaged: its parameters: {error}") from error
    given = {"parameters": model.get_params() | parameters}
    fitted = _restored(document.get("fitted") or {}, arrays, str(folder), kind.name)
    others = tuple(replace(other, **given) for other in fitted.others)
    model._fitted = replace(fitted, others=others, **given)
    return model


def _current(parameters: dict[str, Any], kind: Any, version: int) -> dict[str, Any]:
    """Return the parameters that a model of an earlier version of the format has today."""
    if version < 3 and "amount" in kind.rules:
        parameters = {"amount": "negative-binomial"} | parameters
        parameters.pop("weight_variance", None)
    if version < 4 and kind.name == "vae-bptf":
        parameters = {name: value for name, value in parameters.items() if name != "hidden_units"}
    return parameters


def _restored(document: dict[str, Any], arrays: Arrays, folder: str, model: str) -> Fitted:
    try:
        fitted = Fitted.restored(document, arrays, folder)
        check_loaded(fitted, model)
    except (
        ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError,
        ValueError,
    ) as error:  # fmt: skip
        problem = str(error) if isinstance(error, ValueError) else repr(error)
        raise StorageError(f"{folder!r} is damaged, or not ours: {problem[:400]}.") from error
    return fitted
