"""The page docs/results/topics.md, from rows of results_topic_words.py.

cd docs/results; python ../../benchmarks/topic_words_page.py --rows topics.jsonl --out topics.md
"""

import argparse
from pathlib import Path

import pandas as pd

TEXT = Path(__file__).with_name("topic_words_page.md")
COLUMNS = {
    "npmi-listed": "NPMI, as listed",
    "distinct-listed": "distinct",
    "npmi-probability": "NPMI, probability",
    "distinct-probability": "distinct",
    "npmi-relevance": "NPMI, relevance",
    "distinct-relevance": "distinct",
    "stability-probability": "stability, probability",
    "stability-relevance": "stability, relevance",
}


def page(rows):
    """Fill the tables into the text."""
    parts = []
    for (text, topics), part in rows.groupby(["text", "topics"], sort=False):
        parts.append(f"## {text}, {topics} topics\n")
        parts.append(f"| model | fits | {' | '.join(COLUMNS.values())} |")
        parts.append("|---|" + "---:|" * (len(COLUMNS) + 1))
        for model, found in part.groupby("model", sort=False):
            fits = found["seed"].notna().sum()
            means = [_cell(found, column) for column in COLUMNS]
            parts.append(f"| {model} | {fits} | {' | '.join(means)} |")
        parts.append("")
    return TEXT.read_text(encoding="utf-8").replace("{tables}", "\n".join(parts).rstrip())


def _cell(found, column):
    known = found[column].dropna() if column in found else []
    if not len(known):
        return ""
    return f"{known.mean():.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    rows = pd.read_json(given.rows, lines=True)
    rows = rows.sort_values(["text", "topics", "model"], kind="stable")
    given.out.write_text(page(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
