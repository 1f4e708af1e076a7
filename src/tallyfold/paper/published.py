"""The figures that the paper printed, in tables beside ours, and what is said of experiments."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import cache, reduce
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from tallyfold.errors import DataError
from tallyfold.evaluation.pairing import paired, summary

if TYPE_CHECKING:
    import pandas as pd


@cache
def described(part: str = "experiments") -> dict[str, Any]:
    """Return a part of `experiments.toml`: the experiments, their ``"texts"``, ``"stands_for"``."""
    text = files("tallyfold.paper").joinpath("experiments.toml").read_text(encoding="utf-8")
    found: dict[str, Any] = tomllib.loads(text)[part]
    return found


def notes(experiment: str, **facts: Any) -> list[str]:
    """Return what to know when reading an experiment's tables, with facts of the run filled in."""
    facts = described("texts") | facts
    return [note.format(**facts) for note in described()[experiment]["notes"]]


STANDS_FOR: dict[str, str] = described("stands_for")
"""Which of the paper's data sets a tensor stands for; others have no published figure."""

TEST_SHARE = 0.2
KEYS = ("dataset", "model")


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


def score_table(
    rows: pd.DataFrame, titles: Mapping[str, str], keys: tuple[str, ...] = KEYS
) -> pd.DataFrame:
    """Return a column of means for each score, called by its title, and its standard errors."""
    columns = [_column(rows, metric, title, keys) for metric, title in titles.items()]
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
    parts = [_column(rows, metric, title, KEYS) for title, (rows, metric) in columns.items()]
    # the last column has all models, in the order of tables
    table = pd.concat([part[keys] for part in reversed(parts)]).drop_duplicates()
    order = pd.factorize(table["dataset"])[0].argsort(kind="stable")  # as they first come
    table = table.iloc[order]
    table["published"] = [published(*pair) for pair in table.itertuples(index=False)]
    failed = pd.concat([rows[rows["metric"] == metric] for rows, metric in columns.values()])
    errors = failed.dropna(subset="error").drop_duplicates(keys)[[*keys, "error"]]
    for part in (*parts, errors):
        table = table.merge(part, on=keys, how="left")
    return table.dropna(axis="columns", how="all")


def _column(rows: pd.DataFrame, metric: str, title: str, keys: tuple[str, ...]) -> pd.DataFrame:
    names = {"mean": title, "standard_error": f"{title}, se"}
    return summary(rows[rows["metric"] == metric]).rename(columns=names)[[*keys, *names.values()]]


def tests_against(
    rows: pd.DataFrame, model: str, others: Iterable[str], metric: str, regime: str
) -> pd.DataFrame:
    """Return the paired tests over data sets of one model against others, a row each."""
    import pandas as pd

    tests = []
    for other in others:
        test: dict[str, Any] = {"regime": regime, "model": model, "against": other, "score": metric}
        try:
            found = paired(rows, model, other, metric)
        except DataError as error:  # no value in common: one has no distribution, or failed
            tests.append(test | {"note": str(error)})
            continue
        test |= {"data sets": len(found.differences), "better on": found.wins}
        test["p, t-test"] = None if found.t is None else found.t.p
        test["p, Wilcoxon"] = None if found.wilcoxon is None else found.wilcoxon.p
        tests.append(test | {"note": " ".join(found.notes)})
    table = pd.DataFrame(tests)
    counted = [name for name in ("data sets", "better on") if name in table]
    return table.astype(dict.fromkeys(counted, "Int64"))  # whole, though some are missing
