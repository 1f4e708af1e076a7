"""The page docs/results/complete-logs.md, from rows of results_complete_logs.py.

    python benchmarks/complete_logs_page.py --rows ROWS --out docs/results/complete-logs.md

ROWS is the folder of the runs, or the rows as the page's own .jsonl keeps them, which is written
beside --out. What has no rows is left out.
"""

import argparse
from pathlib import Path

import pandas as pd

import results_topics
import results_two_axes
from amounts_page import ABSENT, cells, gains_of, overview, with_error
from results_complete_logs import MODELS, TENSORS
from tallyfold.evaluation.pairing import summary

TEXT = Path(__file__).with_name("complete_logs_page.md")
RIVAL = "boosting on counts"
FLAGSHIP = "VAE-BPTF"
CELL_COLUMNS = {
    "log-score": "log score",
    "occurrence": "occurrence",
    "amount": "amount",
    "auc-within": "AUC within",
    "auc": "AUC",
    "recall-20": "recall@20",
    "ndcg-20": "NDCG@20",
}
TOPIC_COLUMNS = {
    "npmi-probability": "NPMI, probability",
    "distinct-probability": "distinct",
    "npmi-relevance": "NPMI, relevance",
    "distinct-relevance": "distinct",
    "npmi-listed": "NPMI, `components`",
    "n-listed": "components listed",
}
LIST_COLUMNS = {"ndcg-20": "NDCG@20", "recall-20": "recall@20"}


def page(rows):
    """Fill the tables into the text."""
    means = summary(rows).set_index(["dataset", "model", "metric"])
    there = set(rows["dataset"])
    sections = []
    tensors = [name for name in TENSORS if name in there]
    if tensors:
        sections += ["## Whether there is a count: occurrence, means over splits"]
        models = [label for label in MODELS if label in set(rows["model"])]
        sections += [overview(tensors, models, means, "occurrence"), "## Every score"]
    for name in tensors:
        about = f"{cells(rows, name)} Labels are ranked along {TENSORS[name].along}."
        sections += [f"### {name}", f"{about} {zeros_error(rows, name)}"]
        sections += [table(rows, means, name, MODELS, CELL_COLUMNS, gains(rows, name))]
    texts = [name for name in results_topics.TEXTS if name in there]
    if texts:
        sections.append("## Components that can be read")
    for name in texts:
        title = f"### {name}, {results_topics.TEXTS[name].n_topics} of them"
        sections += [title, table(rows, means, name, results_topics.MODELS, TOPIC_COLUMNS)]
    name = results_two_axes.NAME
    if name in there:
        sections += [f"## {name}: films not seen yet", cells(rows, name)]
        sections += [table(rows, means, name, results_two_axes.MODELS, LIST_COLUMNS)]
    return TEXT.read_text().replace("{TABLES}", "\n\n".join(sections))


def zeros_error(rows, name):
    found = rows[(rows["dataset"] == name) & (rows["metric"] == "zeros-error")]["value"]
    return f"Drawing empty cells adds a standard error of at most {found.max():.4f} to a split."


def gains(rows, name):
    """Return, for each score that is told so, the differences to the rival by model."""
    found = {}
    for metric in ("log-score", "occurrence"):
        for model in set(rows["model"]) - {RIVAL}:
            gain = gains_of(rows, model, RIVAL, metric)
            if name in gain.index:
                row = gain.loc[name]
                found[metric, model] = with_error(
                    row["difference"], row["standard_error"], sign="+"
                )
    return found


def table(rows, means, name, models, columns, gains=None):
    """A row per model, a column per score, with differences to the rival where they are given."""
    part = rows[rows["dataset"] == name]
    columns = {metric: title for metric, title in columns.items() if metric in set(part["metric"])}
    over = [metric for metric in columns if any(key[0] == metric for key in gains or ())]
    titles = [
        each
        for metric, title in columns.items()
        for each in ([title, f"over {RIVAL}"] if metric in over else [title])
    ]
    titles = ["model", *titles, "seconds", "MiB", "fits"]
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    for model in models:
        fits = part[part["model"] == model].drop_duplicates("seed")
        if not len(fits):
            continue
        shown = [model]
        for metric in columns:
            shown.append(value_of(means, (name, model, metric)))
            if metric in over:
                shown.append(gains.get((metric, model), ABSENT))
        shown += [f"{fits['seconds'].mean():.1f}", f"{fits['peak_mib'].mean():,.0f}"]
        lines.append("| " + " | ".join([*shown, str(len(fits))]) + " |")
    return "\n".join(lines)


def value_of(means, key):
    if key not in means.index or pd.isna(means.loc[key, "mean"]):
        return ABSENT
    return with_error(*means.loc[key, ["mean", "standard_error"]])


def read_rows(source):
    """Return the rows of a folder, or those kept beside a page."""
    rows = pd.read_json(source, lines=True) if source.is_file() else pd.read_parquet(source)
    shown = {*TENSORS, *results_topics.TEXTS, results_two_axes.NAME}
    order = ["dataset", "seed", "model", "metric"]
    return rows[rows["dataset"].isin(shown)].sort_values(order, ignore_index=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--out", type=Path, help="default: print it")
    given = parser.parse_args()
    rows = read_rows(given.rows)
    text = page(rows)
    if not given.out:
        print(text, end="")
        return
    given.out.write_text(text)
    columns = rows.drop(columns=["iterations", "error", "setting"], errors="ignore")
    columns.to_json(given.out.with_suffix(".jsonl"), orient="records", lines=True)


if __name__ == "__main__":
    main()
