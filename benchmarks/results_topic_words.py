"""Words of components beside those of topic models: coherence, distinct words, stability, time.

    python benchmarks/results_topic_words.py --data FOLDER --lists LISTS --out ROWS.jsonl

FOLDER holds nips, acl and hotel_review (benchmarks/results_models.py says where they come from);
the demo comes with the library. A fit has a seed and sees another 80 % of all cells, the same ones
for every model of that seed; the topic models see them as documents x words. A list is the ten
first words of a topic: by probability, by relevance (LDAvis, 0.6), and for our models as
`components` lists them. Lists are scored by the mean NPMI of their pairs in all documents, by how
many of all words listed are distinct, and by stability: the mean share of words that two fits have
in common (topics matched so that it is largest). Seconds are of processors, with one thread each.
What was found is kept in LISTS as it comes, and is not fitted again; ROWS of texts asked for are
written anew of all that is there.

Our components are fitted alone: with a gate that is named, nothing held out, so that neither a gate
nor when to stop is chosen, nor weights of combinations or a count head are learnt. Such a model is
for reading. "found seeds" have a background, too, one component more, of which there is no list.
"with weights" is the one that predicts, without its count head; `score` is of the hidden cells.
"""

import argparse
import json
import logging
from functools import lru_cache, partial
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.optimize import linear_sum_assignment

import tallyfold as tf
from kept_rows import installed, listed, timed
from rivals.topics import fit_lda, fit_nmf, fit_tomotopy
from tallyfold.evaluation.words.cooccurrence import Cooccurrence
from tallyfold.posterior.label_order import ORDERS, Weights, checked_order

TOP, RELEVANCE, SHARE = 10, 0.6, 0.8
PASSES, LIKE_RATES = 30, "negative-binomial"


class Texts(NamedTuple):
    """A tensor with words, which of its axes make up a document, and which two have a gate."""

    tensor: object
    document: list[str]
    gate: tuple[str, str]


def parquet(name, *axes):
    return lambda folder: tf.read_counts(
        folder / f"{name}.parquet", axes=["word", *axes], value="count"
    )


TEXTS = {
    "demo": Texts(lambda folder: tf.load_demo(), ["module"], ("word", "place")),
    "nips": Texts(parquet("nips", "author", "year"), ["author", "year"], ("author", "year")),
    "hotel_review": Texts(
        parquet("hotel_review", "user", "hotel"), ["user", "hotel"], ("user", "hotel")
    ),
    "acl": Texts(
        parquet("acl", "author", "venue", "year"), ["author", "venue", "year"], ("author", "year")
    ),
}


def components(**given):
    """Return how components alone are fitted: nothing is held out to choose or to calibrate by."""

    def fit(text, tensor, documents_DV, n, seed):
        given_n = n + bool(given.get("background"))
        alone = {"validation": None, "max_iter": PASSES, "gate": TEXTS[text].gate}
        model = tf.VAEBPTF(
            n_components=given_n,
            zeros="observed",
            amount=LIKE_RATES,
            random_state=seed,
            **(alone | given),
        )
        return model.fit(tensor)

    return fit


def topics(fit):
    return lambda text, tensor, documents_DV, n, seed: fit(documents_DV, n, seed)


CHOSEN = {"validation": 0.1, "max_iter": None, "gate": "auto"}
MODELS = {
    "LDA (scikit-learn)": topics(fit_lda),
    "LDA (tomotopy)": topics(fit_tomotopy),
    "NMF (scikit-learn)": topics(fit_nmf),
    "NMF (scikit-learn), log counts": topics(partial(fit_nmf, sublinear=True)),
    "components": components(),
    "components, found seeds": components(seeds="auto", background=True),
    "with weights": components(**CHOSEN),
}
NEEDS = {"LDA (tomotopy)": "tomotopy"}


def documents_of(tensor, axes):
    """Return documents x words, a row for each combination of labels that has counts."""
    columns = tensor.indices[:, [tensor.axis_number(axis) for axis in axes]]
    document_N = pd.DataFrame(columns).groupby([*range(columns.shape[1])]).ngroup().to_numpy()
    shape = (document_N.max() + 1, len(tensor.axis("word")))
    word_N = tensor.indices[:, tensor.axis_number("word")]
    return sparse.csr_matrix((tensor.counts, (document_N, word_N)), shape)


def found_in(fitted, documents_DV):
    """Return what is kept of a fit: lists, or for our models what lists are made of."""
    if isinstance(fitted, np.ndarray):
        return by_both(fitted, documents_DV)
    factors, names = fitted.posterior_, fitted.component_names_
    on = [k for k in np.flatnonzero(~factors.switched_off()) if names[k] != "background"]
    mean_VK = factors.mean("word")
    total_K = mean_VK.sum(axis=0)
    return {
        "probability_KV": (mean_VK / total_K).T[on],
        "low_KV": (factors.quantile("word", 0.05) / total_K).T[on],
        "share_K": factors.shares()[on],
    }


def lists_of(found, documents_DV):
    """Return the words of every topic by position, by what they are ranked by."""
    if "low_KV" not in found:
        return {by: found[by] for by in ("probability", "relevance")}
    probability_KV, low_KV = (
        found[name].astype(np.float64) for name in ("probability_KV", "low_KV")
    )
    counts_V = np.asarray(documents_DV.sum(axis=0)).ravel()  # about what is expected
    weights = Weights(probability_KV.T, low_KV.T, found["share_K"], np.maximum(counts_V, 1))
    by, part = checked_order(None, None)
    return by_both(probability_KV, documents_DV) | {"listed": first(ORDERS[by](weights, part).T)}


def by_both(probability_KV, documents_DV):
    """Return the first words by probability, and by relevance, of those that have counts."""
    overall_V = np.asarray(documents_DV.sum(axis=0)).ravel() / documents_DV.sum()
    probability_KV = np.where(overall_V > 0, probability_KV, 0.0)
    log_KV = np.log(np.maximum(probability_KV, 1e-300))
    relevance_KV = log_KV - (1 - RELEVANCE) * np.log(np.where(overall_V > 0, overall_V, 1.0))
    return {"probability": first(probability_KV), "relevance": first(relevance_KV)}


def first(value_KV):
    return np.argsort(-value_KV, axis=1, kind="stable")[:, :TOP].astype(np.int32)


def scores_of(lists, labels, reference):
    """Return coherence and the share of distinct words of every kind of list."""
    scores = {"topics_listed": len(next(iter(lists.values())))}
    for by, words_KT in lists.items():
        scores[f"npmi-{by}"] = float(np.mean([reference.npmi(words) for words in labels[words_KT]]))
        scores[f"distinct-{by}"] = len(np.unique(words_KT)) / words_KT.size
    return scores


def common_words(one_KT, other_KT):
    """Return the mean share of words that the topics of two fits have in common, best matched."""
    share_KL = np.array([[len(np.intersect1d(a, b)) for b in other_KT] for a in one_KT]) / TOP
    rows, columns = linear_sum_assignment(share_KL, maximize=True)
    return float(share_KL[rows, columns].sum() / max(share_KL.shape))


def stability_of(fits):
    """Return the mean share of common words of all pairs of fits, by what ranks lists."""
    return {
        f"stability-{by}": float(np.mean([common_words(a[by], b[by]) for a, b in pairs]))
        for pairs in [list(combinations(fits, 2))]
        for by in fits[0]
    }


def run(given):
    """Fit what is not there yet, to all texts with one seed before the next one."""
    for seed, n_topics, name in product(range(given.seeds), given.topics, given.texts):
        for model in installed(given.models, NEEDS):
            file = given.lists / f"{name}-{n_topics}-{seed}-{model}.npz"
            if file.exists():
                continue
            train, test, documents_DV = part(name, given.data, seed)
            fit = partial(MODELS[model], name, train, documents_DV, n_topics, seed)
            fitted, cost = timed(fit, 1)
            found = found_in(fitted, documents_DV) | {"seconds": cost["processor_seconds"]}
            if model.startswith("with"):
                found["score"] = fitted.score(test)
            np.savez_compressed(file, **found)
            print(file.stem, f"{cost['processor_seconds']:.1f} s", flush=True)


@lru_cache(maxsize=1)
def part(name, folder, seed):
    """Return the cells that fits with a seed see, those hidden, and documents x words."""
    tensor = TEXTS[name].tensor(folder)
    train, test = tf.split(tensor, 1 - SHARE, cells="all", random_state=seed)
    return train, test, documents_of(train, TEXTS[name].document)


def score(given):
    """Write a line for each fit that is there, and one for the stability of several.

    Lines of other texts stay as they are.
    """
    lines = given.out.read_text("utf-8").splitlines() if given.out.exists() else []
    rows = [row for row in map(json.loads, lines) if row["text"] not in given.texts]
    for name in given.texts:
        files = sorted(given.lists.glob(f"{name}-*.npz"), key=seed_of)
        if not files:
            continue
        reference, labels = prepare(name, given.data)
        fits = {}
        for file in files:
            _, n_topics, seed, model = file.stem.split("-", 3)
            found = dict(np.load(file))
            lists = lists_of(found, part(name, given.data, int(seed))[2])
            scores = scores_of(lists, labels, reference)
            scores |= {what: float(found[what]) for what in ("seconds", "score") if what in found}
            key = {"text": name, "topics": int(n_topics), "model": model}
            rows.append(key | {"seed": int(seed)} | scores)
            fits.setdefault(tuple(key.values()), []).append(lists)
        for key, several in fits.items():
            if len(several) > 1:
                names = dict(zip(("text", "topics", "model"), key, strict=True))
                rows.append(names | {"fits": len(several)} | stability_of(several))
    with given.out.open("w", encoding="utf-8") as file:
        for row in rows:
            plain = {k: round(v, 5) if isinstance(v, float) else v for k, v in row.items()}
            file.write(json.dumps({"version": tf.__version__} | plain) + "\n")


def seed_of(file):
    """Return what orders files so that those of a seed, which share cells, stand together."""
    return int(file.stem.split("-", 3)[2]), file.stem


def prepare(name, folder):
    """Return where words stand together in the whole of a text, and the words."""
    texts = TEXTS[name]
    tensor = texts.tensor(folder)
    labels = np.array(tensor.axis("word").labels.to_pylist())
    return Cooccurrence.from_tensor(tensor, "word", texts.document), labels


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--lists", type=Path, required=True)
    parser.add_argument("--out", type=Path, help="without it nothing is scored")
    parser.add_argument("--texts", type=listed(TEXTS), default=list(TEXTS))
    parser.add_argument("--models", type=lambda text: text.split(";"), default=list(MODELS))
    parser.add_argument("--topics", type=listed((10, 20, 50), int), default=[10, 20, 50])
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    given.lists.mkdir(parents=True, exist_ok=True)
    logging.disable(logging.WARNING)  # that components are switched off
    run(given)
    if given.out:
        score(given)


if __name__ == "__main__":
    main()
