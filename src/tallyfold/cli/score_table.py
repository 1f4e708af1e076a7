"""Scores of models beside each other: a row per score, a column per model."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tallyfold.cli import options
from tallyfold.cli.long_runs import number
from tallyfold.cli.terminal import printable, show_table

if TYPE_CHECKING:
    from rich.console import Console

    from tallyfold.data.tensor import CountTensor
    from tallyfold.models.base import CountModel

Scores = dict[str, dict[str, float | None]]

POSITIVE = (
    "log-pmf-positive",
    "mae-mean",
    "mae-median",
    "rmse",
    "coverage-50",
    "coverage-80",
    "coverage-95",
)
"""What is shown where empty cells are missing; where they are zeros, the plain log pmf, too."""


def chosen_metrics(text: str | None, zeros: str, has_train: bool) -> list[str]:
    """Return the names of scores that an option asks for: the usual ones, some, or all."""
    from tallyfold.evaluation.metrics import METRICS, checked_metrics

    if text is None:
        return [*(["log-pmf"] if zeros == "observed" else []), *POSITIVE]
    if text == "all":
        return [name for name, each in METRICS.items() if has_train or each.needs != "train"]
    return list(checked_metrics(options.names(text) or []))


def scored(
    model: "CountModel",
    test: "CountTensor",
    metrics: Sequence[str],
    train: "CountTensor | None" = None,
) -> Scores:
    """Score a model on cells, and beside it, if there are cells to fit them on, its floors."""
    from tallyfold.evaluation.compare import compare, floors
    from tallyfold.evaluation.metrics import scores_of

    found: Scores = {model.name: scores_of(model, test, metrics, train)}
    if train is None:
        return found
    zeros = model.get_params()["zeros"]
    for row in compare(floors(zeros), train, test, metrics).to_dict("records"):
        found[str(row["model"])] = {name: row[name] for name in metrics}
    return found


def show_scores(
    out: "Console", title: str, scores: Mapping[str, Mapping[str, float | None]]
) -> None:
    """Print a table of scores, and what is better of each."""
    from tallyfold.evaluation.metrics import METRICS

    metrics = list(next(iter(scores.values())))
    rows = [
        (name, METRICS[name].better, *(number(each[name]) for each in scores.values()))
        for name in metrics
    ]
    heads = ["score", "better", *(f"{printable(name)}>" for name in scores)]
    show_table(out, title, heads, rows)
