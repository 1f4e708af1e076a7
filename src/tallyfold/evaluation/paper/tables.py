"""Tidy rows turned into tables that put the paper's figures beside ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from tallyfold.errors import DataError
from tallyfold.evaluation.pairing import paired, summary

if TYPE_CHECKING:
    import pandas as pd


def means(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return mean and standard error of one score, and the error of a model that failed."""
    part = rows[rows["metric"] == metric]
    keys = ["dataset", "split", "model"]
    errors = part.dropna(subset="error").drop_duplicates(keys)[[*keys, "error"]]
    return summary(part).merge(errors, on=keys, how="left")


def side_by_side(
    columns: Mapping[str, pd.DataFrame], published: Callable[[str, str], float | None]
) -> pd.DataFrame:
    """Join columns of means by data set and model, with the published figure before them.

    A column's standard error over seeds stands behind it. A model that failed shows its error.
    """
    import pandas as pd

    keys = ["dataset", "model"]
    parts = list(columns.values())  # the last has all models, in the order of tables
    pairs = pd.concat([part[keys] for part in reversed(parts)]).drop_duplicates()
    order = {name: place for place, name in enumerate(pairs["dataset"].unique())}
    table = pairs.sort_values("dataset", key=lambda names: names.map(order), kind="stable")
    table["published"] = [
        published(*pair) for pair in zip(table["dataset"], table["model"], strict=True)
    ]
    errors = []
    for title, part in columns.items():
        names = {"mean": title, "standard_error": f"{title}, se"}
        table = table.merge(
            part.rename(columns=names)[[*keys, *names.values()]], on=keys, how="left"
        )
        errors.append(part[[*keys, "error"]].dropna())
    failed = pd.concat(errors).drop_duplicates(keys)
    table = table.merge(failed, on=keys, how="left") if len(failed) else table
    return table.dropna(axis="columns", how="all")


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
