"""The page docs/results/amounts.md, from rows of results_amounts.py.

Rows of every split are kept beside the page, in amounts.jsonl. Of fits that were made before rows
were kept there are means only, in amounts_means.jsonl: the page shows them, with a mark, where
there are no rows. Rows whose `setting` is FORMER have a mark, too.
"""

import textwrap
from pathlib import Path

import pandas as pd

from tallyfold.errors import DataError
from tallyfold.evaluation.pairing import paired, summary

TEXT = Path(__file__).with_name("amounts_page.md")
RIVAL = "boosting"
SCORE, ERROR, INSIDE = "log-pmf-positive", "mae-median", "coverage-80"
ABSENT, EARLIER, FORMER = "–", "†", "former training"
MARKS = {
    EARLIER: "means of earlier runs, whose rows were not kept: {}. They had one thread, VAE-BPTF "
    "two. Differences between an old and a new mean have no standard error.",
    "‡": "rows of the head as it was trained before, with 4,000 steps (3,000 below 200,000 cells) "
    "in inputs as they are, two networks, and all labels known: {}.",
}
GOALS = {
    ("nips", SCORE): -0.568,
    ("grocery", SCORE): -1.045,
    ("movie_events", SCORE): -0.279,
    ("movie_rating", SCORE): -1.612,
    ("movie_rating", ERROR): 1.05,
    ("aiv5_rating", SCORE): -1.0,
    ("aiv5_rating", ERROR): 0.61,
    ("hotel_review", SCORE): -0.494,
    ("acl", SCORE): -0.691,
}
"""What was set as a goal before, by prototypes on one split each."""


def read_rows(source):
    """Return the rows of a folder, or those kept beside the page."""
    rows = pd.read_json(source, lines=True) if source.is_file() else pd.read_parquet(source)
    return rows.sort_values(["dataset", "seed", "model", "metric"], ignore_index=True)


def page(rows, earlier, tensors, models):
    """Fill the tables into the text; `earlier` are means of fits without rows."""
    known = pd.concat([means_of(rows, models), earlier.assign(mark=EARLIER)], ignore_index=True)
    known = known.sort_values("n", ascending=False, kind="stable")  # else rows come first
    known = known.drop_duplicates(["dataset", "model", "metric"])
    known = known.set_index(["dataset", "model", "metric"]).sort_index()
    tensors = [name for name in tensors if name in known.index.levels[0]]
    text = TEXT.read_text().replace("{SCORES}", overview(tensors, models, known["mean"]))
    text = text.replace("{GOALS}", goals(known["mean"]))
    words = "".join(marked_words(known, models, mark) for mark in MARKS)
    text = text.replace("{EARLIER}\n", words)
    details = [f"### {name}\n\n{detail(name, models, known)}" for name in tensors]
    return text.replace("{DETAILS}", "\n\n".join(details))


def means_of(rows, models):
    """Return a row per tensor, model and metric: its mean, and its difference to the rival."""
    means = summary(rows).set_index(["dataset", "model", "metric"])
    former = rows["setting"].eq(FORMER).groupby([rows[name] for name in means.index.names]).any()
    means = means[["mean", "standard_error", "n"]].join(former.map({True: "‡", False: ""}))
    means = means.rename(columns={"setting": "mark"})
    told = ["seconds", "train_cells", "test_cells"]
    means = means.join(rows.groupby(["dataset", "model", "metric"])[told].mean())
    gains = pd.concat([gains_of(rows, model) for model in models if model != RIVAL])
    return means.join(gains).reset_index()


def gains_of(rows, model):
    """Return the paired differences to the rival by tensor: mean and standard error."""
    index, own = ["dataset", "model", "metric"], ["over", "over_error"]
    try:
        found = paired(rows, model, RIVAL, SCORE).differences
    except DataError:  # one of the two has no rows, or none of the same splits
        return pd.DataFrame(columns=index + own).set_index(index)
    found = found.rename(columns={"difference": "over", "standard_error": "over_error"})
    return found.assign(model=model, metric=SCORE).set_index(index)[own]


def marked_words(known, models, mark):
    """Say which means have a mark; nothing if none has."""
    marked = known[known["mark"] == mark].reset_index()
    named = [
        f"{model} ({', '.join(dict.fromkeys(marked[marked['model'] == model]['dataset']))})"
        for model in models
        if model in set(marked["model"])
    ]
    if not named:
        return ""
    told = f"- {mark} marks " + MARKS[mark].format("; ".join(named))
    return textwrap.fill(told, 140, subsequent_indent="  ") + "\n"


def overview(tensors, models, means):
    """A row per tensor, a column per model: the mean score, the best in bold."""
    lines = ["| tensor | " + " | ".join(models) + " |", "|---" * (1 + len(models)) + "|"]
    for name in tensors:
        found = [means.get((name, model, SCORE)) for model in models]
        best = max(value for value in found if value is not None)
        shown = [ABSENT if value is None else f"{value:.4f}" for value in found]
        shown = [f"**{s}**" if v == best else s for s, v in zip(shown, found, strict=True)]
        lines.append(f"| {name} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def goals(means):
    """A row per goal: what margins and VAE-BPTF have, and whether both reach it."""
    lines = ["| tensor | score | goal | margins | VAE-BPTF | reached |", "|---" * 6 + "|"]
    words = {SCORE: "log pmf, at least", ERROR: "MAE of the median, at most"}
    for (name, metric), goal in GOALS.items():
        found = [means.get((name, model, metric)) for model in ("margins", "VAE-BPTF")]
        sign = 1 if metric == SCORE else -1
        reached = "yes" if all(sign * value >= sign * goal for value in found) else "**no**"
        shown = " | ".join(f"{value:.4f}" for value in found)
        lines.append(f"| {name} | {words[metric]} | {goal:g} | {shown} | {reached} |")
    return "\n".join(lines)


def detail(name, models, known):
    """A row per model: every score with its standard error."""
    own = known.loc[name]
    train, test = own["train_cells"].iloc[-1], own["test_cells"].iloc[-1]
    lines = [
        f"{train:,.0f} cells to learn from, {test:,.0f} held out.",
        "",
        "| model | log pmf \\| y ≥ 1 | over boosting | MAE, median | inside 80 % | seconds "
        "| splits |",
        "|---|---|---|---|---|---|---|",
    ]
    for model in models:
        if (model, SCORE) not in own.index:
            continue
        score, error, inside = (own.loc[(model, metric)] for metric in (SCORE, ERROR, INSIDE))
        lines.append(
            f"| {model}{score['mark']} | {with_error(score['mean'], score['standard_error'])} "
            f"| {over_rival(score, own.loc[(RIVAL, SCORE)])} "
            f"| {with_error(error['mean'], error['standard_error'])} | {inside['mean']:.3f} "
            f"| {score['seconds']:.1f} | {score['n']:.0f} |"
        )
    return "\n".join(lines)


def over_rival(score, rival):
    """The paired difference to the rival; that of the means if the rival's rows are not there."""
    if score.name[0] == RIVAL:
        return ABSENT
    if pd.isna(score["over"]) and score["n"] == rival["n"]:
        return with_error(score["mean"] - rival["mean"], None, sign="+")
    return with_error(score["over"], score["over_error"], sign="+")


def with_error(value, error, sign=""):
    if pd.isna(value):
        return ABSENT
    text = f"{value:{sign}.4f}"
    return text if pd.isna(error) else f"{text} ± {error:.4f}"
