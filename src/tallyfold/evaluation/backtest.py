"""Forecasts against what came: fits at past origins, scored on the periods after them."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from tallyfold.data.axis import listing, python_values
from tallyfold.data.period_cells import PeriodCells, period_cells
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError, ParameterError, StorageError, TallyfoldError
from tallyfold.evaluation.fit_and_score import fit_whole
from tallyfold.evaluation.period_scores import label_scores, period_scores
from tallyfold.evaluation.row_folder import Row, RowFolder
from tallyfold.inference.past.totals import learned_totals
from tallyfold.kernels.arrays import Floats, Ints
from tallyfold.models.base import CountModel
from tallyfold.models.expected import checked_model, checked_tensor
from tallyfold.models.parameters import check_parameters, integer
from tallyfold.models.time_axis import time_number
from tallyfold.version import __version__

if TYPE_CHECKING:
    import os

    import pandas as pd

COLUMNS = {
    "origin": pa.string(),
    "period": pa.string(),
    "ahead": pa.int64(),
    "model": pa.string(),
    "combinations": pa.string(),
    "metric": pa.string(),
    "value": pa.float64(),
    "cells": pa.float64(),
    "new_labels": pa.int64(),
    "seconds": pa.float64(),
    "error": pa.string(),
    "version": pa.string(),
    "setting": pa.string(),
}
LEAST_PERIODS = 2
"""A model must know at least this many."""


class BacktestFit(NamedTuple):
    """One fit of a backtest, for who watches it.

    Attributes
    ----------
    number, of
        Which, of how many.
    origin, model
        The last period it knows, and the model's name.
    done
        Whether its rows were kept before.
    """

    number: int
    of: int
    origin: str
    model: str
    done: bool


def backtest(
    tensor: CountTensor,
    models: Mapping[str, CountModel],
    *,
    axis: str = "auto",
    horizon: int = 1,
    origins: int | Sequence[Any] = 6,
    n_cells: int = 60_000,
    folder: str | os.PathLike[str] | None = None,
    announce: Callable[[BacktestFit], None] | None = None,
) -> pd.DataFrame:
    """Fit models to what was known at past origins, and score their forecasts on what came.

    Nothing of what comes after an origin is in any fit, nor in any choice that a fit makes. Cells
    of labels that had no count by then are left out and counted (`new_labels`); all other cells of
    a period are scored, those without a count as zeros.

    Parameters
    ----------
    tensor
        The counts.
    models
        Models by the name of their rows; they are not changed.
    axis
        The axis of time; ``"auto"``: the only one that has an order.
    horizon
        How many periods after an origin are scored, each by itself.
    origins
        How many origins, the last ones that have `horizon` periods after them; or their labels.
    n_cells
        About how many cells of each kind (with a count, silent now, never seen) are drawn to score
        a period; where there are fewer, all are scored.
    folder
        Where rows are kept as they come; the same backtest goes on from them.
    announce
        Called with a `BacktestFit` before each fit.

    Returns
    -------
    pandas.DataFrame
        A row per origin, period, model, set of cells (``"all"``, ``"seen"``: combinations that had
        a count before, ``"new"``) and metric: ``"occurrence"``, ``"amount"`` and their sum
        ``"total"``, log scores per cell with a count; of the period's total what came and was
        expected (``"period actual"``, ``"period mean"``, ``"period low"`` and ``"period high"``
        of an 80 % interval, ``"period inside"``), ``"period crps"`` and ``"period absolute
        error"``. Of the totals of single labels ``"label crps"``, ``"label absolute error"`` (of
        the median) and ``"label inside"`` (the share inside 80 % intervals), with the name of their
        axis in the place of a set of cells; see `next_totals`. A model that failed has one row with
        its error.

    Examples
    --------
    >>> import tallyfold as tf
    >>> made = tf.simulate((20, 10, 8), 2, density=0.3, axes=["who", "what", "day"]).tensor
    >>> days = tf.Axis("day", list(range(8)), tf.AxisOrder("ordered"))
    >>> tensor = tf.CountTensor([*made.axes[:2], days], made.indices, made.counts)
    >>> rows = backtest(tensor, {"last": tf.LastValue()}, origins=2)
    >>> len(set(rows["origin"])), rows["metric"].iloc[0]
    (2, 'occurrence')
    """
    import pandas as pd

    checked = _checked(models)
    check_parameters(
        {"horizon": horizon, "n_cells": n_cells}, {"horizon": integer(1), "n_cells": integer(100)}
    )
    number = time_number(checked_tensor(tensor).axes, axis)
    kept = RowFolder(folder, pa.schema(COLUMNS))
    past = _Past(tensor, number, horizon, n_cells)
    chosen = past.origins(origins)
    rows: list[Row] = []
    of = len(chosen) * len(checked)
    for at, (origin, name) in enumerate((o, m) for o in chosen for m in checked):
        setting = past.setting(origin, checked[name])
        before = _kept_rows(kept, past.label(origin), name, setting)
        if announce is not None:
            announce(BacktestFit(at + 1, of, past.label(origin), name, before is not None))
        if before is None:
            before = [*past.rows(origin, name, checked[name], setting)]
            kept.write((past.label(origin), name), before)
        rows += before
    return pd.DataFrame(rows, columns=[name for name in COLUMNS if name != "setting"])


def _checked(models: Any) -> dict[str, CountModel]:
    if not isinstance(models, Mapping) or not models:
        raise ParameterError(
            "`models` must be models by the name of their rows, such as "
            f"{{'smoothed past': SmoothedPast()}}; got {models!r}."
        )
    for model in models.values():
        checked_model(model)
    return dict(models)


def _kept_rows(kept: RowFolder, origin: str, name: str, setting: str) -> list[Row] | None:
    rows = kept.read((origin, name))
    if rows is None:
        return None
    if rows[0]["setting"] != setting or rows[0]["version"] != __version__:
        raise StorageError(
            f"the folder has rows of another {name!r} at {origin}: its data, parameters, horizon "
            "or version differ. Take another folder, or the same settings."
        )
    return rows


class _Past(NamedTuple):
    """A tensor, cut at origins."""

    tensor: CountTensor
    axis: int
    horizon: int
    n_cells: int

    @property
    def step_D(self) -> Ints:
        return self.tensor.axes[self.axis].steps()

    def label(self, step: int) -> str:
        """Return the label of a step, as text."""
        place = int(np.flatnonzero(self.step_D == step)[0])
        return str(python_values(self.tensor.axes[self.axis].labels[place : place + 1])[0])

    def origins(self, given: int | Sequence[Any]) -> list[int]:
        """Return the steps of the origins; refuse those that leave nothing to fit or to score."""
        step_N = self.step_D[self.tensor.indices[:, self.axis]]
        if not len(step_N):
            raise DataError("the tensor has no non-zero cell; there is nothing to forecast.")
        first, last = int(step_N.min()) + LEAST_PERIODS - 1, int(step_N.max()) - self.horizon
        axis = self.tensor.axes[self.axis]
        if isinstance(given, int) and not isinstance(given, bool):
            check_parameters({"origins": given}, {"origins": integer(1)})
            known = np.unique(step_N)
            found = [int(step) for step in known[(known >= first) & (known <= last)][-given:]]
            if len(found) < given:
                raise DataError(
                    f"{given:,} origins, each with {LEAST_PERIODS} periods before it and "
                    f"{self.horizon:,} after it, do not fit into axis {axis.name!r}: "
                    f"{len(found):,} do. Take fewer origins, or a shorter horizon."
                )
            return found
        if isinstance(given, str) or not isinstance(given, Sequence) or not given:
            raise ParameterError(
                f"`origins` must be a number of origins or a list of labels; got {given!r}."
            )
        steps = self.step_D[axis.positions(given)].tolist()
        outside = [label for label, step in zip(given, steps, strict=True)
                   if not first <= step <= last]  # fmt: skip
        if outside:
            raise DataError(
                f"an origin needs {LEAST_PERIODS} periods before it and {self.horizon:,} after it; "
                f"{listing(outside)} on axis {axis.name!r} have not. Take origins from "
                f"{self.label(first)!r} to {self.label(last)!r}, or a shorter horizon."
            )
        return [int(step) for step in steps]

    def known(self, origin: int) -> CountTensor:
        """Return what is known at an origin: no later cell, and no label of one."""
        past_N = self.step_D[self.tensor.indices[:, self.axis]] <= origin
        return self.tensor.with_cells(past_N).compact()

    def setting(self, origin: int, model: CountModel) -> str:
        """Return a checksum of what decides the scores of a fit."""
        step_N = self.step_D[self.tensor.indices[:, self.axis]]
        upto = self.tensor.with_cells(step_N <= origin + self.horizon)
        about = [model.name, model.get_params(), self.axis, self.horizon, self.n_cells]
        text = json.dumps(about, sort_keys=True, default=str) + upto.fingerprint()
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def rows(
        self, origin: int, name: str, model: CountModel, setting: str
    ) -> Iterator[dict[str, Any]]:
        """Fit a model at an origin; yield its scores."""
        about: Row = dict.fromkeys(COLUMNS)
        about |= {"origin": self.label(origin), "model": name, "setting": setting}
        about["version"] = __version__
        start = time.perf_counter()
        fitted = model._with()
        try:
            fit_whole(fitted, self.known(origin))
            about["seconds"] = time.perf_counter() - start
            yield from self._scored(origin, fitted.forecast(self.horizon), about)
        except TallyfoldError as problem:
            yield about | {"error": str(problem)}

    def _scored(self, origin: int, model: CountModel, about: Row) -> Iterator[Row]:
        forecaster = model.fitted_.forecaster
        assert forecaster is not None
        others = range(len(self.tensor.axes) - 1) if forecaster.rates is not None else ()
        totals = [learned_totals(forecaster, other) for other in others]
        for ahead in range(1, self.horizon + 1):
            step = origin + ahead
            if not np.any(self.step_D == step):  # no label, so no count at all: a gap
                continue
            cells = period_cells(
                self.tensor, self.axis, self.step_D, step, known=origin,
                n=self.n_cells, most_listed=2 * self.n_cells,
            )  # fmt: skip
            period = about | {"period": self.label(step), "ahead": ahead}
            period["new_labels"] = cells.n_new_labels
            for score in period_scores(model, self._on_axes_of(model, cells), ahead):
                yield period | score._asdict()
            if totals:
                names, actual = self._label_totals(model, step)
                for score in label_scores(forecaster, totals, names, actual, ahead):
                    yield period | score._asdict()

    def _label_totals(self, model: CountModel, step: int) -> tuple[list[str], list[Floats]]:
        """Return the totals of a model's labels in a period, by axis, and the axes' names."""
        now_N = self.step_D[self.tensor.indices[:, self.axis]] == step
        cells_NM, counts_N = self.tensor.indices[now_N], self.tensor.counts[now_N]
        names, found = [], []
        for number, axis in enumerate(self.tensor.axes):
            if number != self.axis:
                place_D, known_D = axis.find(model.axes_[number].labels)
                total_D = np.bincount(cells_NM[:, number], counts_N, len(axis))
                names.append(axis.name)
                found.append(np.where(known_D, total_D[place_D], 0.0))
        return names, found

    def _on_axes_of(self, model: CountModel, cells: PeriodCells) -> PeriodCells:
        """Return cells by their positions on a model's axes."""
        columns = [
            own.find(axis.labels)[0][column_C]
            for own, axis, column_C in zip(
                model.axes_, self.tensor.axes, cells.indices_CM.T, strict=True
            )
        ]
        return replace(cells, indices_CM=np.stack(columns, axis=1))
