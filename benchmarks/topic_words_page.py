"""The page docs/results/topics.md, from rows of results_topic_words.py.

cd docs/results; python ../../benchmarks/topic_words_page.py --rows topics.jsonl --out topics.md
"""

import argparse
from pathlib import Path

import pandas as pd

TEXT = Path(__file__).with_name("topic_words_page.md")
OURS = "components, found seeds"
SAME = "NMF (scikit-learn), log counts"
TIMED = "LDA (scikit-learn)"
ORDERS = ["probability", "relevance", "listed"]
MEASURES = ["npmi", "distinct", "stability"]
KEY = ["text", "topics", "model"]


def means(rows):
    """Return the mean of every column over the fits of a model, and how many there are."""
    rows = rows.assign(fits=rows.groupby(KEY)["seed"].transform("count"))
    found = rows.groupby(KEY, sort=False).mean(numeric_only=True)
    texts = {name: place for place, name in enumerate(["demo", "nips", "hotel_review", "acl"])}
    return found.sort_index(
        key=lambda level: level.map(texts) if level.name == "text" else level, kind="stable"
    )


def best(found, measure):
    """Return the larger of what a model's lists by probability and by relevance have."""
    return max(found.get(f"{measure}-{by}", float("nan")) for by in ORDERS[:2])


def summary(found):
    """Write a line per text and number of topics: lists of ours beside the best of the rivals."""
    lines = [
        "| text | topics | NPMI, ours | best rival | distinct, ours | of that rival | "
        "stability, ours | best rival | NMF of log counts: NPMI, stability | seconds, ours | LDA |",
        "|---|" + "---:|" * 10,
    ]
    for (text, topics), part in found.groupby(level=["text", "topics"], sort=False):
        models = part.droplevel(["text", "topics"])
        if OURS not in models.index:
            continue
        ours = models.loc[OURS]
        rivals = models[models.index.str.contains("scikit-learn|tomotopy") & (models.index != SAME)]
        lead, order = max(
            ((name, by) for name in rivals.index for by in ORDERS[:2]),
            key=lambda pair: rivals.loc[pair[0], f"npmi-{pair[1]}"],
        )
        stable = {name: best(rivals.loc[name], "stability") for name in rivals.index}
        surest = max(stable, key=lambda name: -1 if pd.isna(stable[name]) else stable[name])
        same = models.loc[SAME] if SAME in models.index else None
        cells = [
            _bold(ours["npmi-listed"], rivals.loc[lead, f"npmi-{order}"]),
            f"{rivals.loc[lead, f'npmi-{order}']:.3f} ({_short(lead)}, {order})",
            _bold(ours["distinct-listed"], rivals.loc[lead, f"distinct-{order}"]),
            _number(rivals.loc[lead, f"distinct-{order}"]),
            _bold(best_of_all(ours), stable[surest]),
            f"{_number(stable[surest])} ({_short(surest)})",
            ""
            if same is None
            else f"{_number(best(same, 'npmi'))}, {_number(best(same, 'stability'))}",
            f"{ours['seconds']:.1f}",
            f"{models.loc[TIMED, 'seconds']:.1f}" if TIMED in models.index else "",
        ]
        lines.append(f"| {text} | {topics} | {' | '.join(cells)} |")
    return "\n".join(lines)


def best_of_all(found):
    """Return the stability of lists by the better of the orders that rivals have."""
    return best(found, "stability")


def tables(found):
    """Write a table per text and number of topics."""
    parts = []
    for (text, topics), part in found.groupby(level=["text", "topics"], sort=False):
        heads = [f"{measure}, {by}" for by in ORDERS for measure in MEASURES]
        parts.append(f"## {text}, {topics} topics\n")
        parts.append(f"| model | fits | {' | '.join(heads)} | seconds |")
        parts.append("|---|" + "---:|" * (len(heads) + 2))
        for (_, _, model), row in part.iterrows():
            numbers = [_number(row.get(f"{measure}-{by}")) for by in ORDERS for measure in MEASURES]
            parts.append(
                f"| {model} | {row['fits']:.0f} | {' | '.join(numbers)} | {row['seconds']:.1f} |"
            )
        parts.append("")
    return "\n".join(parts).rstrip()


def _number(value):
    return "" if value is None or pd.isna(value) else f"{value:.3f}"


def _bold(value, other):
    """Write a number, bold where it is not below another one."""
    return f"**{_number(value)}**" if value >= other else _number(value)


def _short(model):
    return model.replace(" (scikit-learn)", "").replace("LDA (tomotopy)", "LDA, Gibbs")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    found = means(pd.read_json(given.rows, lines=True))
    text = TEXT.read_text(encoding="utf-8")
    page = text.replace("{summary}", summary(found)).replace("{tables}", tables(found))
    given.out.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
