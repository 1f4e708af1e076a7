"""Coherence: whether words that a model puts together stand together in documents."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tallyfold.data.axis import Axis, axis_number, python_values
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError, ParameterError
from tallyfold.evaluation.words.cooccurrence import EPSILON, Cooccurrence
from tallyfold.kernels.arrays import Floats, Ints, Whole
from tallyfold.models.base import CountModel
from tallyfold.models.expected import checked_model
from tallyfold.models.parameters import RANDOM_STATE, check_parameters, integer, number

if TYPE_CHECKING:
    import pandas as pd


AT_ONCE = 2**22
"""Distances that are worked out at once."""


class Coherence(NamedTuple):
    """How coherent a model's words are.

    Attributes
    ----------
    mean
        The mean NPMI, from -1 (never together) by 0 (as by chance) to 1 (always together).
    scores
        A row per word or component: its NPMI, and the words it was measured on.
    left_out
        How many words, or components, were not scored, by the reason.
    """

    mean: float
    scores: pd.DataFrame
    left_out: dict[str, int]


def coherence_by_word(
    model: CountModel,
    axis: str,
    reference: Cooccurrence | CountTensor,
    *,
    nearest: int = 10,
    least: float = 0.001,
    epsilon: float | None = None,
) -> Coherence:
    """Return the mean NPMI of each word and the words nearest to it, as the paper scores models.

    Near is what has a small Euclidean distance between a model's `vectors`.

    Parameters
    ----------
    model
        A fitted model.
    axis
        Its axis of words.
    reference
        Where words stand together: a `Cooccurrence`, or a tensor with that axis, of which every
        combination of the other axes is a document. The model's own training tensor will do, but
        is what it was fitted on: say so where you report it.
    nearest
        How many words are scored together, the word itself among them.
    least
        Words in a smaller share of the documents are not scored; they may be near others. Words in
        no document of the reference are left aside altogether.
    epsilon
        What becomes of pairs never seen together, as in `Cooccurrence.npmi`.

    Examples
    --------
    >>> import tallyfold as tf
    >>> tensor = tf.simulate((30, 40, 10), 3, density=0.2).tensor
    >>> model = tf.BPTF(n_components=3, max_iter=20).fit(tensor)
    >>> sorted(coherence_by_word(model, "axis_1", tensor).left_out)
    ['not in the reference', 'rare']
    """
    _check_counted(least, epsilon, nearest=nearest)
    words = _Words(_axis_of(model, axis), reference)
    scored = words.not_rare(least)
    vector_WK = model.vectors(axis)[words.known_W]
    near_SN = nearest_rows(vector_WK, scored, min(nearest, len(vector_WK)))
    return _by_word(words, near_SN, epsilon)


def coherence_by_chance(
    reference: Cooccurrence | CountTensor,
    axis: str = "word",
    *,
    nearest: int = 10,
    least: float = 0.001,
    epsilon: float | None = None,
    random_state: int | None = 0,
) -> Coherence:
    """Return the mean NPMI of each word and others drawn at random: what a model must be above.

    Parameters
    ----------
    reference, nearest, least, epsilon
        As in `coherence_by_word`.
    axis
        The axis of words, where the reference is a tensor.
    random_state
        Seed of the draws.

    Examples
    --------
    >>> import tallyfold as tf
    >>> tensor = tf.simulate((30, 40, 10), 3, density=0.2).tensor
    >>> model = tf.BPTF(n_components=3, zeros="observed", max_iter=50).fit(tensor)
    >>> by_chance = coherence_by_chance(tensor, "axis_1").mean
    >>> coherence_by_word(model, "axis_1", tensor).mean > by_chance
    True
    """
    _check_counted(least, epsilon, nearest=nearest)
    check_parameters({"random_state": random_state}, {"random_state": RANDOM_STATE})
    reference = _checked_reference(reference, axis)
    words = _Words(reference.words, reference)
    scored, rng = words.not_rare(least), np.random.default_rng(random_state)
    n_known = len(words.known_W)
    others_SN = np.stack(  # among all but the word itself
        [rng.choice(n_known - 1, min(nearest, n_known) - 1, replace=False) for _ in scored]
    )
    others_SN += others_SN >= scored[:, None]
    return _by_word(words, np.column_stack([scored, others_SN]), epsilon)


def coherence_by_component(
    model: CountModel,
    axis: str,
    reference: Cooccurrence | CountTensor,
    *,
    top: int = 10,
    least: float = 0.05,
    epsilon: float | None = None,
) -> Coherence:
    """Return the mean NPMI of each component's strongest words, the usual score of topics.

    Parameters
    ----------
    model, axis, reference, epsilon
        As in `coherence_by_word`.
    top
        How many words of each component; those that are surely strong (``by="sure"``). Words in no
        document of the reference are left out of their component's score.
    least
        Components with less than this part of an even share of the rate are not scored: the prior
        has switched them off (`Factors.switched_off`), and says the same of all words. 0 scores
        all.

    Examples
    --------
    >>> import tallyfold as tf
    >>> tensor = tf.simulate((30, 40, 10), 3, density=0.2).tensor
    >>> model = tf.BPTF(n_components=3, max_iter=20).fit(tensor)
    >>> coherence_by_component(model, "axis_1", tensor).scores.columns.tolist()
    ['component', 'share', 'npmi', 'words']
    """
    import pandas as pd

    _check_counted(least, epsilon, top=top)
    words = _Words(_axis_of(model, axis), reference)
    on, n_components = (
        model.components(axis, top, by="sure", least=least),
        model.posterior_.n_components,
    )
    rows, n_unknown, n_scored = [], 0, on["component"].nunique()
    for (component, share), part in on.groupby(["component", "share"], sort=False):
        found = words.among(part["label"])
        n_unknown += len(part) - len(found)
        if len(found) > 1:
            npmi = float(words.mean_npmi(found[None], epsilon)[0])
            rows.append((component, share, npmi, words.labels(found)))
    if not rows:
        raise DataError(f"no component of axis {axis!r} has two words in the reference.")
    frame = pd.DataFrame(rows, columns=["component", "share", "npmi", "words"])
    left_out = {
        "components switched off": n_components - n_scored,
        "components with fewer than two words in the reference": n_scored - len(rows),
        "words not in the reference": n_unknown,
    }
    return Coherence(float(frame["npmi"].mean()), frame, left_out)


def _check_counted(least: float, epsilon: float | None, **words: int) -> None:
    rules = {"least": number(0, 1, low_included=True), "epsilon": EPSILON}
    rules |= dict.fromkeys(words, integer(2))
    check_parameters({**words, "least": least, "epsilon": epsilon}, rules)


def _axis_of(model: CountModel, name: str) -> Axis:
    axes = checked_model(model).axes_
    return axes[axis_number(axes, name)]


def _checked_reference(reference: Cooccurrence | CountTensor, axis: str) -> Cooccurrence:
    if isinstance(reference, CountTensor):
        return Cooccurrence.from_tensor(reference, axis)
    if not isinstance(reference, Cooccurrence):
        raise ParameterError(
            f"`reference` must be a Cooccurrence or a CountTensor; got {type(reference).__name__}."
        )
    return reference


def _by_word(words: _Words, lists_SN: Ints, epsilon: float | None) -> Coherence:
    """Score lists of places, each begun by the word that it is of."""
    import pandas as pd

    npmi_S = words.mean_npmi(lists_SN, epsilon)
    lists = [words.labels(row) for row in lists_SN]
    frame = pd.DataFrame({"label": words.labels(lists_SN[:, 0]), "npmi": npmi_S, "words": lists})
    rare = len(words.known_W) - len(lists_SN)
    left_out = {"rare": rare, "not in the reference": words.n_unknown}
    return Coherence(float(npmi_S.mean()), frame, left_out)


class _Words:
    """The words of an axis that a reference knows."""

    def __init__(self, axis: Axis, reference: Cooccurrence | CountTensor) -> None:
        self.axis, self.reference = axis, _checked_reference(reference, axis.name)
        place_D, found_D = self.reference.words.find(axis.labels)
        found_D &= self.reference.counts_V[place_D] > 0
        self.known_W, self.place_W = np.flatnonzero(found_D), place_D[found_D]
        self.n_unknown = len(axis) - len(self.known_W)
        if len(self.known_W) < 2:
            raise DataError(
                f"the reference has {len(self.known_W)} of the {len(axis):,} words of axis "
                f"{axis.name!r}; coherence needs two. Are words written the same way in both?"
            )

    def not_rare(self, least: float) -> Ints:
        """Return the places of words in at least a share of the documents."""
        share_V = self.reference.counts_V / self.reference.n_documents
        found = np.flatnonzero(share_V[self.place_W] >= least)
        if len(found) == 0:
            raise DataError(
                f"no word of axis {self.axis.name!r} is in {least:.3%} of documents: lower `least`."
            )
        return found

    def labels(self, rows: Whole) -> list[Any]:
        """Return the words at some places among those known."""
        return python_values(self.axis.labels.take(self.known_W[rows]))

    def among(self, labels: Any) -> Ints:
        """Return the places of labels among those known; the others are left out."""
        position = self.axis.positions(labels)
        place = np.searchsorted(self.known_W, position)
        place = np.minimum(place, len(self.known_W) - 1)
        return np.asarray(place[self.known_W[place] == position])

    def mean_npmi(self, lists_SN: Whole, epsilon: float | None) -> Floats:
        """Return, for each list of places, the mean NPMI of its pairs."""
        first_P, second_P = np.array(list(combinations(range(lists_SN.shape[1]), 2))).T
        place_SN = self.place_W[lists_SN]
        npmi = self.reference.pair_npmi(
            place_SN[:, first_P].ravel(), place_SN[:, second_P].ravel(), epsilon=epsilon
        )
        return np.asarray(npmi.reshape(len(lists_SN), -1).mean(axis=1))


def nearest_rows(factor_WK: Floats, rows_S: Ints, number: int) -> Ints:
    """Return the rows nearest to some rows by Euclidean distance, nearest first, itself first."""
    centred_WK = factor_WK - factor_WK.mean(axis=0)  # keeps digits in the difference of squares
    square_W = (centred_WK**2).sum(axis=1)
    near_SN = np.empty((len(rows_S), number), np.int64)
    width = max(1, AT_ONCE // len(factor_WK))
    for start in range(0, len(rows_S), width):
        rows = rows_S[start : start + width]
        distance = square_W - 2 * centred_WK[rows] @ centred_WK.T
        distance[np.arange(len(rows)), rows] = -np.inf
        near = np.argpartition(distance, number - 1, axis=1)[:, :number]
        order = np.argsort(np.take_along_axis(distance, near, axis=1), axis=1, kind="stable")
        near_SN[start : start + width] = np.take_along_axis(near, order, axis=1)
    return near_SN
