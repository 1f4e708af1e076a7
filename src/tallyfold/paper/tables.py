"""Tidy rows turned into tables that put the paper's figures beside ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import TYPE_CHECKING

from tallyfold.errors import DataError
from tallyfold.evaluation.pairing import paired, summary

if TYPE_CHECKING:
    import pandas as pd

KEYS = ("dataset", "model")


def means(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return mean and standard error of one score, and the error of a model that failed."""
    part = rows[rows["metric"] == metric]
    keys = ["dataset", "split", "model"]
    errors = part.dropna(subset="error").drop_duplicates(keys)[[*keys, "error"]]
    return summary(part).merge(errors, on=keys, how="left")


def score_table(
    rows: pd.DataFrame, titles: Mapping[str, str], keys: tuple[str, ...] = KEYS
) -> pd.DataFrame:
    """Return a column of means for each score, called by its title, and its standard errors."""
    columns = [_column(means(rows, metric), title, keys) for metric, title in titles.items()]
    return reduce(lambda left, right: left.merge(right, on=[*keys], how="left"), columns)


def side_by_side(
    columns: Mapping[str, tuple[pd.DataFrame, str]], published: Callable[[str, str], float | None]
) -> pd.DataFrame:
    """Put means of scores beside each other, with the published figure before them.

    A column is called by its title and made of rows and the name of a score; its standard error
    over seeds stands behind it. A model that failed shows its error.
    """
    import pandas as pd

    keys = [*KEYS]
    parts = {title: means(rows, metric) for title, (rows, metric) in columns.items()}
    # the last column has all models, in the order of tables
    pairs = pd.concat([part[keys] for part in reversed(parts.values())]).drop_duplicates()
    table = pairs.sort_values(
        "dataset",
        key=lambda names: pd.factorize(names)[0],  # as they first come
        kind="stable",
    )
    table["published"] = [published(*pair) for pair in table[keys].itertuples(index=False)]
    for title, part in parts.items():
        table = table.merge(_column(part, title, KEYS), on=keys, how="left")
    errors = pd.concat([part[[*keys, "error"]].dropna() for part in parts.values()])
    if len(errors):
        table = table.merge(errors.drop_duplicates(keys), on=keys, how="left")
    return table.dropna(axis="columns", how="all")


def _column(part: pd.DataFrame, title: str, keys: tuple[str, ...]) -> pd.DataFrame:
    names = {"mean": title, "standard_error": f"{title}, se"}
    return part.rename(columns=names)[[*keys, *names.values()]]


def tests_against(
    rows: pd.DataFrame, model: str, others: Iterable[str], metric: str, regime: str
) -> pd.DataFrame:
    """Return the paired tests over data sets of one model against others, a row each."""
    import pandas as pd

    table = pd.DataFrame([_test(rows, model, other, metric, regime) for other in others])
    counted = [name for name in ("data sets", "better on") if name in table]
    return table.astype(dict.fromkeys(counted, "Int64"))  # whole, though some are missing


def _test(
    rows: pd.DataFrame, model: str, other: str, metric: str, regime: str
) -> dict[str, object]:
    row: dict[str, object] = {"regime": regime, "model": model, "against": other, "score": metric}
    try:
        found = paired(rows, model, other, metric)
    except DataError as error:  # no value in common: one has no distribution, or failed
        return row | {"note": str(error)}
    return row | {
        "data sets": len(found.differences),
        "better on": found.wins,
        "p, t-test": None if found.t is None else found.t.p,
        "p, Wilcoxon": None if found.wilcoxon is None else found.wilcoxon.p,
        "note": " ".join(found.notes),
    }
