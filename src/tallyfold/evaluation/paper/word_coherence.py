"""`coherence`: do words with similar factors occur together (the paper's Table 5)."""

from __future__ import annotations

from collections.abc import Callable

from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError
from tallyfold.evaluation.paper.line_up import (
    CONSTANTS,
    PUBLISHED_NAME,
    as_the_paper_ran_them,
    under_the_same_zeros,
)
from tallyfold.evaluation.paper.published import published_value
from tallyfold.evaluation.paper.setting import Reproduction, Setting
from tallyfold.evaluation.paper.tables import means, side_by_side
from tallyfold.evaluation.predictions import Predictions
from tallyfold.evaluation.words.coherence import coherence_by_component, coherence_by_word

WORD = "word"


def npmi_of_neighbours(said: Predictions) -> float:
    """Return the paper's score: the mean NPMI of each word's ten nearest words."""
    return coherence_by_word(said.model, WORD, _documents(said)).mean


def npmi_of_components(said: Predictions) -> float:
    """Return the usual score: the mean NPMI of each component's ten strongest words."""
    return coherence_by_component(said.model, WORD, _documents(said)).mean


METRICS: dict[str, Callable[[Predictions], float]] = {
    "NPMI, neighbours": npmi_of_neighbours,
    "NPMI, components": npmi_of_components,
}


def coherence(setting: Setting) -> Reproduction:
    """NPMI of words that a model puts near each other."""
    import pandas as pd

    regimes = {
        "as the paper ran it": ("coherence-as-the-paper", as_the_paper_ran_them),
        "zeros missing": ("coherence-same-zeros", under_the_same_zeros),
    }
    parts: dict[str, list[pd.DataFrame]] = {regime: [] for regime in regimes}
    texts = _texts(setting)
    for name, tensor in texts.items():
        for regime, (folder, line_up) in regimes.items():
            models = {n: m for n, m in line_up(name).items() if n not in CONSTANTS}
            parts[regime].append(setting.rows(folder, models, METRICS, tensors={name: tensor}))
    paper, same = (pd.concat(part, ignore_index=True) for part in parts.values())
    table = side_by_side(
        {
            "as the paper ran it": means(paper, "NPMI, neighbours"),
            "as the paper ran it, by component": means(paper, "NPMI, components"),
            "zeros missing": means(same, "NPMI, neighbours"),
            "zeros missing, by component": means(same, "NPMI, components"),
        },
        published=lambda dataset, model: published_value(
            "coherence", dataset, PUBLISHED_NAME.get(model, ""), "NPMI"
        ),
    )
    return Reproduction(
        {"NPMI": table},
        [
            "published: the paper's Table 5, against Wikipedia. Ours is against the documents that "
            "were fitted (a document is a combination of all axes but the words), so the levels "
            "cannot be compared, only the order of the models.",
            "as the paper ran it, and zeros missing: each word and its nine nearest by the "
            "distance between factors; words in under 0.1 % of the documents are left out. By "
            "component: the ten strongest words of each component.",
            f"Data sets without an axis {WORD!r} are left out: "
            f"{', '.join(n for n in setting.tensors if n not in texts) or 'none'}.",
        ],
    )


def _texts(setting: Setting) -> dict[str, CountTensor]:
    tensors = {name: setting.tensor(name) for name in setting.tensors}
    texts = {name: tensor for name, tensor in tensors.items() if WORD in tensor.names}
    if not texts:
        raise DataError(
            f"coherence is a matter of words; none of {', '.join(tensors)} has an axis {WORD!r}."
        )
    return texts


def _documents(said: Predictions) -> CountTensor:
    assert said.train is not None
    return said.train
