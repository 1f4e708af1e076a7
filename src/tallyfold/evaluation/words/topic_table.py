"""Coherence, distinct words and stability of a model's components, in one table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tallyfold.data.markup import frame_html
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError
from tallyfold.evaluation.words.cooccurrence import Cooccurrence
from tallyfold.models.base import CountModel
from tallyfold.models.expected import checked_model
from tallyfold.models.parameters import check_parameters, integer
from tallyfold.posterior.component_names import BACKGROUND
from tallyfold.posterior.label_order import By

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class TopicTable:
    """What there is to say of the words of components.

    Attributes
    ----------
    table
        A row per component: its number, name and share; `npmi`, the mean over pairs of its words,
        from -1 (never together) by 0 (as by chance) to 1 (always together); `distinct`, the share
        of its words that no other component lists; `stability`, if it was asked for
        (`tallyfold.stability`); and the words.
    npmi
        The mean over components.
    different
        The share of all words listed that are different: a word that two list is one.
    stability
        The mean over components; None where it was not asked for.
    """

    table: pd.DataFrame
    npmi: float
    different: float
    stability: float | None

    def __repr__(self) -> str:
        return f"{self.title}\n{self.table.to_string(index=False, float_format='{:.3f}'.format)}"

    def _repr_html_(self) -> str:
        return frame_html(self.title, self.table.assign(words=self.table["words"].map(_joined)))

    @property
    def title(self) -> str:
        """All of it in a line."""
        known = "" if self.stability is None else f", stability {self.stability:.3f}"
        return (
            f"{len(self.table)} components, coherence (NPMI) {self.npmi:.3f}; of all words listed "
            f"{self.different:.3f} are different{known}"
        )


def _joined(words: Sequence[Any]) -> str:
    return " ".join(map(str, words))


def topic_table(
    model: CountModel,
    axis: str,
    reference: Cooccurrence | CountTensor,
    *,
    document: Sequence[str] | None = None,
    top: int = 10,
    by: By | None = None,
    relevance: float | None = None,
) -> TopicTable:
    """Judge the words of components: whether they stand together, apart, and come back.

    A background, which is no topic, has no row.

    Parameters
    ----------
    model, axis
        A fitted model, and its axis of words.
    reference
        Where words stand together, such as the counts that the model was fitted on; or a
        `Cooccurrence`.
    document
        The axes of a tensor whose labels make up a document; None: all but the words.
    top
        How many words of each component.
    by, relevance
        What words are ranked by, as in `model.components`.

    Examples
    --------
    >>> import tallyfold as tf
    >>> tensor = tf.simulate((30, 40, 10), 3, density=0.2).tensor
    >>> model = tf.BPTF(n_components=3, zeros="observed", max_iter=20).fit(tensor)
    >>> topic_table(model, "axis_1", tensor).table.columns.tolist()
    ['component', 'name', 'share', 'npmi', 'distinct', 'words']
    """
    import pandas as pd

    check_parameters({"top": top}, {"top": integer(2)})
    listed = checked_model(model).components(axis, top, by=by, relevance=relevance)
    listed = listed[listed["name"] != BACKGROUND]
    if isinstance(reference, CountTensor):
        reference = Cooccurrence.from_tensor(reference, axis, document)
    place_N, found_N = reference.words.find(listed["label"])
    found_N &= reference.counts_V[place_N] > 0
    times = Counter(listed["label"])
    rows = []
    for (component, name), part in listed.groupby(["component", "name"], sort=False):
        words = part["label"].tolist()
        has = found_N[(listed["component"] == component).to_numpy()]
        known = [word for word, there in zip(words, has, strict=True) if there]
        row = {"component": component, "name": name, "share": part["share"].iloc[0]}
        row["npmi"] = reference.npmi(known) if len(known) > 1 else None
        row["distinct"] = sum(times[word] == 1 for word in words) / len(words)
        if "stability" in part:
            row["stability"] = part["stability"].iloc[0]
        rows.append(row | {"words": words})
    table = pd.DataFrame(rows)
    table["npmi"] = table["npmi"].astype(float)
    if table["npmi"].isna().all():
        raise DataError(
            f"no component of axis {axis!r} has two words in the reference. Are words written the "
            "same way in both?"
        )
    known_stability = table["stability"].mean() if "stability" in table else None
    return TopicTable(table, float(table["npmi"].mean()), len(times) / len(listed), known_stability)
