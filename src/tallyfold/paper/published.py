"""The figures that the paper printed, from one data file that names table and cell."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

STANDS_FOR = {
    "nips": "NIPS",
    "acl": "DBLP",
    "dblp": "DBLP",
    "hotel_review": "Review",
    "video_review": "Review",
    "movie_rating": "Rating",
    "video_rating": "Rating",
    "grocery": "Game",
    "game": "Game",
}
"""Which of the paper's data sets a tensor stands for; others have no published figure."""

TEST_SHARE = 0.2


@cache
def published() -> pd.DataFrame:
    """Return every published figure: experiment, place in the paper, data set, model, quantity."""
    import pandas as pd

    source = files("tallyfold.paper") / "published.csv"
    with source.open(encoding="utf-8") as stream:
        return pd.read_csv(stream, keep_default_na=False)


def published_value(experiment: str, dataset: str, model: str, quantity: str) -> float | None:
    """Return one figure for a tensor's name, or None if the paper has none."""
    table = published()
    found = table[
        (table["experiment"] == experiment)
        & (table["dataset"] == STANDS_FOR.get(dataset, dataset))
        & (table["model"] == model)
        & (table["quantity"] == quantity)
    ]
    return None if found.empty else float(found["value"].iloc[0])


def published_loglik(experiment: str, dataset: str, model: str) -> float | None:
    """Return the published log-likelihood per test cell: the sum over a fifth of the cells."""
    total = published_value(experiment, dataset, model, "LL")
    cells = published_value("loglik", dataset, "", "non-zero cells")
    return None if total is None or cells is None else total / (TEST_SHARE * cells)
