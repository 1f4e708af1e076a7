"""The page docs/results/amounts.md, from rows of results_amounts.py."""

from pathlib import Path

import pandas as pd

from tallyfold.errors import DataError
from tallyfold.evaluation.pairing import paired, summary

TEXT = Path(__file__).with_name("amounts_page.md")
RIVAL = "boosting"
SCORE = "log-pmf-positive"
ABSENT = "–"


def page(folder, tensors, models):
    """Fill the tables into the text."""
    rows = pd.read_parquet(folder)
    means = summary(rows).set_index(["dataset", "model", "metric"])
    seconds = rows[rows["metric"] == SCORE].groupby(["dataset", "model"])["seconds"].mean()
    gains = {model: gains_of(rows, model) for model in models if model != RIVAL}
    tensors = [name for name in tensors if name in set(rows["dataset"])]
    models = [name for name in models if name in set(rows["model"])]
    details = [
        f"### {name}\n\n{cells(rows, name)}\n\n{detail(name, models, means, seconds, gains)}"
        for name in tensors
    ]
    text = TEXT.read_text().replace("{SCORES}", overview(tensors, models, means))
    return text.replace("{DETAILS}", "\n\n".join(details))


def gains_of(rows, model, rival=RIVAL, score=SCORE):
    """Return the paired differences to a rival by tensor: mean and standard error."""
    try:
        return paired(rows, model, rival, score).differences.set_index("dataset")
    except DataError:  # one of the two has no rows, or none of the same splits
        return pd.DataFrame()


def overview(tensors, models, means, score=SCORE):
    """A row per tensor, a column per model: the mean score, the best in bold."""
    lines = ["| tensor | " + " | ".join(models) + " |", "|---" * (1 + len(models)) + "|"]
    for name in tensors:
        found = [means["mean"].get((name, model, score)) for model in models]
        best = max(value for value in found if value is not None)
        shown = [ABSENT if value is None else f"{value:.4f}" for value in found]
        shown = [f"**{s}**" if v == best else s for s, v in zip(shown, found, strict=True)]
        lines.append(f"| {name} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def cells(rows, name):
    part = rows[rows["dataset"] == name]
    train, test = part["train_cells"].mean(), part["test_cells"].mean()
    return f"{train:,.0f} cells to learn from, {test:,.0f} held out."


def detail(name, models, means, seconds, gains):
    """A row per model: every score with its standard error."""
    lines = [
        "| model | log pmf \\| y ≥ 1 | over boosting | MAE, median | inside 80 % | seconds "
        "| splits |",
        "|---|---|---|---|---|---|---|",
    ]
    for model in models:
        if (name, model, SCORE) not in means.index:
            continue
        score, error, inside = (
            means.loc[(name, model, metric)] for metric in (SCORE, "mae-median", "coverage-80")
        )
        gain = gains.get(model, pd.DataFrame())
        over = ABSENT
        if name in gain.index:
            over = with_error(*gain.loc[name, ["difference", "standard_error"]], sign="+")
        lines.append(
            f"| {model} | {with_error(score['mean'], score['standard_error'])} | {over} "
            f"| {with_error(error['mean'], error['standard_error'])} | {inside['mean']:.3f} "
            f"| {seconds[name, model]:.1f} | {score['n']:.0f} |"
        )
    return "\n".join(lines)


def with_error(value, error, sign=""):
    text = f"{value:{sign}.4f}"
    return text if pd.isna(error) else f"{text} ± {error:.4f}"
