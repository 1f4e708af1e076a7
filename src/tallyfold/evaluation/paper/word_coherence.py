"""`coherence`: do words with similar factors occur together (the paper's Table 5)."""

from __future__ import annotations

from dataclasses import replace

from tallyfold.errors import DataError
from tallyfold.evaluation.paper.line_up import PUBLISHED_NAME
from tallyfold.evaluation.paper.published import published_value
from tallyfold.evaluation.paper.setting import Reproduction, Setting
from tallyfold.evaluation.paper.six_models import WORD, fits, hyper_parameters
from tallyfold.evaluation.paper.tables import means, side_by_side


def coherence(setting: Setting) -> Reproduction:
    """NPMI of words that a model puts near each other."""
    texts = [name for name in setting.tensors if WORD in setting.tensor(name).names]
    if not texts:
        raise DataError(
            f"coherence is a matter of words; none of {', '.join(setting.tensors)} has an axis "
            f"{WORD!r}."
        )
    only = replace(setting, tensors={name: setting.tensors[name] for name in texts})
    paper, same = (rows[rows["model"] != "constant, negative binomial"] for rows in fits(only))
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
            hyper_parameters(setting),
            "published: the paper's Table 5, against Wikipedia. Ours is against the documents that "
            "were fitted (a document is a combination of all axes but the words), so the levels "
            "cannot be compared, only the order of the models.",
            "as the paper ran it, and zeros missing: each word and its nine nearest by the "
            "distance between factors, or embeddings for MLP-TF, which has no components; words in "
            "under 0.1 % of the documents are left out. By component: the ten strongest words of "
            "each component; those that hold less than a twentieth of an even share are switched "
            "off, and left out.",
            "What knows no structure: main effects puts words together that are used equally often "
            "where they are used at all; for the constant, words were drawn at random.",
            f"Data sets without an axis {WORD!r} are left out: "
            f"{', '.join(n for n in setting.tensors if n not in texts) or 'none'}.",
        ],
    )
