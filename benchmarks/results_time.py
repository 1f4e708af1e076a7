"""The next periods of four logs: the library's forecasts beside LightGBM on lags.

    python benchmarks/results_time.py run --data FOLDER --out ROWS
    python benchmarks/results_time.py odd --data FOLDER --out ROWS
    python benchmarks/time_page.py --rows ROWS --out docs/results/time.md

FOLDER holds grocery.parquet, movie_events.parquet, nips.parquet and acl.parquet: a column per axis
and `count`. Grocery and movie_events are cut into weeks (the first and the last, which are cut
short, are left out), nips and acl into years. Of households and authors of
acl every third is taken. Rows are kept in ROWS as they come; the same command goes on.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

import tallyfold as tf
from kept_rows import limited_to, listed
from rivals.lagged_boosting import LaggedBoosting
from rivals.shared_past import SharedPast
from tallyfold.evaluation.backtest import COLUMNS
from tallyfold.evaluation.row_folder import RowFolder

ORIGINS = 6


class Log(NamedTuple):
    """A data set: its axes, the unit of time, what is thinned by how much, and the horizon.

    And after how many periods things come back, if they do; and the last whole period, if later
    ones are cut short.
    """

    axes: tuple[str, ...]
    unit: str
    thinned: str
    every: int
    horizon: int
    season: int | None = None
    until: int | None = None


LOGS = {
    "grocery": Log(("household", "category", "day"), "week", "household", 3, 4),
    "movie_events": Log(("user", "genre", "day"), "week", "user", 1, 4),
    "nips": Log(("author", "word", "year"), "year", "author", 1, 2),
    "acl": Log(("author", "venue", "word", "year"), "year", "author", 3, 2, 2, 2024),
}
MODELS = {
    "dynamic": lambda log: SharedPast(network="auto"),
    "smoothed past": lambda log: SharedPast(),
    "LightGBM on lags": lambda log: LaggedBoosting(),
    "moving average": lambda log: tf.MovingAverage(),
    "seasonal naive": lambda log: tf.SeasonalNaive(period=log.season),
    "last value": lambda log: tf.LastValue(),
}


def tensor_of(folder: Path, name: str) -> tf.CountTensor:
    """Return a log, thinned and cut into periods."""
    log = LOGS[name]
    frame = pd.read_parquet(folder / f"{name}.parquet")
    chosen = sorted(frame[log.thinned].unique())[:: log.every]
    frame = frame[frame[log.thinned].isin(chosen)]
    time = log.axes[-1]
    if log.unit == "year":
        frame = frame.assign(**{time: frame[time].astype(int)})
        frame = frame[frame[time] <= (log.until or np.inf)]
        return tf.CountTensor.from_frame(frame, log.axes, "count", ordered=[time])
    tensor = tf.CountTensor.from_frame(frame, log.axes, "count", bins={time: log.unit})
    inner = tensor.indices[:, -1]
    whole = (inner > inner.min()) & (inner < inner.max())
    return tensor.with_cells(whole).compact()


def run(folder: Path, rows: Path, logs, models, origins: int, horizon: int | None) -> None:
    """Fit and score what has no rows yet."""
    for name in logs:
        log, tensor = LOGS[name], tensor_of(folder, name)
        print(name, tensor, flush=True)
        tf.backtest(
            tensor,
            {m: MODELS[m](log) for m in models if m != "seasonal naive" or log.season},
            horizon=horizon or log.horizon,
            origins=origins,
            n_cells=8_000,
            folder=rows / name,
            announce=lambda fit: print(
                f"{fit.number}/{fit.of} {fit.origin} {fit.model}", flush=True
            ),
        )


def on_axes_of(ahead, coming):
    """Return the counts of a period on all labels that a model knows, without those of others."""
    columns, known_N = [], np.ones(coming.nnz, bool)
    for own, axis, column_N in zip(ahead.axes_, coming.axes, coming.indices.T, strict=True):
        place_D, known_D = own.find(axis.labels)
        columns.append(place_D[column_N])
        known_N &= known_D[column_N]
    time = ahead.axes_[-1]
    axes = [*ahead.axes_[:-1], time.take(np.array([len(time) - 1]))]
    cells = np.stack([*columns[:-1], np.zeros(coming.nnz, int)], axis=1)[known_N]
    return tf.CountTensor(axes, cells.astype(np.int32), coming.counts[known_N])


def odd(folder: Path, rows: Path, logs, origins: int) -> None:
    """Keep how many counts of the next period are called odd: have a `p` below a hundredth."""
    for name in logs:
        tensor, kept = tensor_of(folder, name), RowFolder(rows / name, pa.schema(COLUMNS))
        step_D, time = tensor.axes[-1].steps(), tensor.axes[-1].name
        step_N = step_D[tensor.indices[:, -1]]
        last_origin = int(step_N.max()) - LOGS[name].horizon
        for origin in range(last_origin - origins + 1, last_origin + 1):
            known = tensor.with_cells(step_N <= origin).compact()
            last = str(known.axes[-1].label(len(known.axes[-1]) - 1))
            if kept.read((last, "odd")) is not None:
                continue
            ahead = SharedPast(network="auto").fit(known).forecast(1)
            coming = on_axes_of(ahead, tensor.with_cells(step_N == origin + 1))
            p = tf.surprise(ahead, coming, absent=0)["p"]
            about = dict.fromkeys(COLUMNS) | {"origin": last, "ahead": 1, "model": "dynamic"}
            about |= {"combinations": "all", "metric": "odd", "value": float(np.mean(p < 0.01))}
            about |= {"cells": float(len(p)), "version": tf.__version__}
            about["period"] = str(coming.axes[-1].label(0))
            kept.write((last, "odd"), [about])
            print(name, time, last, about["value"], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["run", "odd"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, metavar="ROWS")
    parser.add_argument("--logs", type=listed(LOGS), default=list(LOGS))
    parser.add_argument("--models", type=listed(MODELS), default=list(MODELS))
    parser.add_argument("--origins", type=int, default=ORIGINS)
    parser.add_argument("--horizon", type=int, help="of all logs; default: that of each")
    given = parser.parse_args()
    with limited_to(1):
        if given.what == "odd":
            odd(given.data, given.out, given.logs, given.origins)
        else:
            run(given.data, given.out, given.logs, given.models, given.origins, given.horizon)


if __name__ == "__main__":
    main()
