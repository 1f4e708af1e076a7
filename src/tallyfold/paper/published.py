"""The figures that the paper printed, from one data file that names table and cell."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from tallyfold.paper.descriptions import described

if TYPE_CHECKING:
    import pandas as pd

STANDS_FOR: dict[str, str] = described("stands_for")
"""Which of the paper's data sets a tensor stands for; others have no published figure."""

TEST_SHARE = 0.2


@cache
def published() -> pd.DataFrame:
    """Return every published figure: experiment, place in the paper, data set, model, quantity."""
    import pandas as pd

    source = files("tallyfold.paper") / "published.csv"
    with source.open(encoding="utf-8") as stream:
        return pd.read_csv(stream, keep_default_na=False)


@cache
def _values() -> dict[tuple[str, ...], float]:
    keys = ["experiment", "dataset", "model", "quantity"]
    return published().set_index(keys)["value"].astype(float).to_dict()  # type: ignore[return-value]


def published_value(experiment: str, dataset: str, model: str, quantity: str) -> float | None:
    """Return one figure for a tensor's name, or None if the paper has none."""
    return _values().get((experiment, STANDS_FOR.get(dataset, dataset), model, quantity))


def published_loglik(experiment: str, dataset: str, model: str) -> float | None:
    """Return the published log-likelihood per test cell: the sum over a fifth of the cells."""
    total = published_value(experiment, dataset, model, "LL")
    cells = published_value("loglik", dataset, "", "non-zero cells")
    return None if total is None or cells is None else total / (TEST_SHARE * cells)
