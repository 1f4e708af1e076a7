"""Cells that a model did not expect: where to look for what is odd in the data.

Where zeros are observed, all cells with a count are selected ones: in most cells a count at all is
unlikely, so that P(Y >= y) is small for many of them with nothing odd anywhere. A cell is therefore
compared with its like. That it has a count is as odd as the share of all counts that come where a
count is no more probable. How many there are, given that there is one, is as odd as the share of
counts drawn from the model that are as far out in their own distribution. The smaller of these two
makes the p-value, with the chance of the other added. Empty cells are compared with all empty
cells. So about one in a hundred cells of each kind has a p-value below 0.01 if the model is right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tallyfold.data.empty_cells import draw_empty_cells
from tallyfold.data.hashing import cell_keys
from tallyfold.data.tensor import CountTensor, label_columns
from tallyfold.errors import ParameterError
from tallyfold.evaluation.absent import likely_empty
from tallyfold.evaluation.chances import Cells, Chances, DrawnShares, Occurrences
from tallyfold.models.base import CountModel
from tallyfold.models.cells import UNKNOWN, Unknown, cell_positions, unknown_by_axis, unknown_words
from tallyfold.models.expected import checked_model, checked_tensor, counts_like
from tallyfold.models.forecast import on_known_labels
from tallyfold.models.parameters import NONE, check_parameters, integer, number, one_of
from tallyfold.models.scoring import EMPTY_CELLS, knows_zeros
from tallyfold.probability.distribution import CountDistribution

if TYPE_CHECKING:
    import pandas as pd

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Tail = Literal["upper", "lower", "both"]

CELLS_AT_ONCE = 50_000
DRAWN_CELLS, DRAWS = 20_000, 25
"""Of how many cells with a count others are drawn from the model, and how many of each."""
ABSENT = 1_000
"""How many empty cells of a part of all cells are ranked, if nothing else is said."""
COLUMNS = ("count", "probability", "mean", "low", "high", "side", "p", "log10_p", "by_chance")


def surprise(
    model: CountModel,
    tensor: CountTensor,
    *,
    tail: Tail = "both",
    top: int | None = None,
    level: float = 0.9,
    given: Literal["nonzero"] | None = None,
    absent: int | None = None,
    unknown: Unknown = "error",
) -> pd.DataFrame:
    """Return cells with how unlikely their counts are to the model, the least likely first.

    Parameters
    ----------
    model
        A fitted model with a distribution of counts.
    tensor
        The cells; best those it was not fitted on, for it has made its peace with the others.
    tail
        Of the count, given that there is one: ``"upper"`` for counts that are too large, by
        P(Y >= y); ``"lower"`` for those that are too small, by P(Y <= y); ``"both"`` by the
        two-sided mid-p value, twice the smaller of P(Y > y) + P(Y = y) / 2 and
        P(Y < y) + P(Y = y) / 2. With observed zeros ``"upper"`` and ``"both"`` also ask whether a
        count was to be expected at all, and ``"lower"`` and ``"both"`` list empty cells.
    top
        How many cells to return; None for all.
    level
        Of the interval from `low` to `high` in which the model expects the count.
    given
        With observed zeros, ``"nonzero"`` asks only how many, given that there is a count.
    absent
        With observed zeros: of how many cells without a count, those where it was the most
        probable, to say so. Of a tensor that is no part of all cells, every cell of its labels
        that has no count is then taken as empty; labels that have no count in it at all, such as a
        user who did not come, are not looked at, and counted in ``attrs["not_looked_at"]``, but
        for the periods of a forecast, where every label that the model knows is. None: 1,000 if it
        is a part, such as ``split(cells="all")`` makes, and else none.
    unknown
        Labels the model does not know: an error, or ``"prior"`` to expect of them what is expected
        of an average entity of their axis; on some axes only: ``{"month": "prior"}``.

    Returns
    -------
    pandas.DataFrame
        A row per cell: its labels, count, expected mean and interval (of the count, zero included,
        unless `given`: a count of 1 may be `"fewer"`, given that there is one, and above the mean),
        the side it is on
        (``"more"`` or ``"fewer"`` than expected), `p`, its logarithm (`p` is 0 below 1e-308), and
        how many of the tensor's cells would be as unlikely `by_chance`: of those with a count, and
        for a count of zero of the empty ones. With observed zeros also the `probability` that
        there is a count at all. Where `unknown` allows ``"prior"``, last a column `unknown`: the
        axes, with commas between, of which a cell's label is not known.

    Examples
    --------
    >>> import tallyfold as tf
    >>> tensor = tf.simulate((30, 20, 10), 2, density=0.3).tensor
    >>> model = tf.BPTF(n_components=2, max_iter=20).fit(tensor)
    >>> surprise(model, tensor, tail="upper", top=3)["p"].is_monotonic_increasing
    True
    """
    import pandas as pd

    check_parameters(
        {"tail": tail, "top": top, "level": level, "given": given, "absent": absent},
        {
            "tail": one_of("upper", "lower", "both"),
            "top": integer(1) | NONE,
            "level": number(0, 1),
            "given": one_of("nonzero") | NONE,
            "absent": integer(0) | NONE,
        },
    )
    checked_model(model)
    with_unknown = "prior" in unknown_by_axis(model.axes_, unknown).values()
    reserved = (*COLUMNS, UNKNOWN) if with_unknown else COLUMNS
    if taken := [name for name in checked_tensor(tensor).names if name in reserved]:
        raise ParameterError(
            f"an axis is called {taken[0]!r}, as a column of the result is; rename it."
        )
    tensor = counts_like(model.axes_, tensor)
    cell_positions(model.axes_, tensor, unknown)
    observed = given is None and knows_zeros(model, model.predictive(tensor.indices[:0]))
    n_absent = _how_many_absent(absent, tail, tensor, observed)
    if tensor.part is None:
        tensor = on_known_labels(model.fitted_, tensor.compact())
    ask = _Asked(model, tensor, tail, unknown)
    positive = given is not None
    found = ask.among_all_cells(n_absent) if observed else ask.given_a_count(positive)
    order = np.argsort(found.log_chance_N if observed else found.log_p_N, kind="stable")[:top]
    found = found.at(order)
    expected = ask.in_parts(
        found.cells_NM,
        lambda said, _: (said.mean(), *said.interval(level)),
        positive=positive,
    )
    shown = CountTensor.of_canonical(ask.tensor.axes, found.cells_NM, found.counts_N)
    labels = [column.dictionary_decode().to_pandas() for column in label_columns(shown)]
    sides, p_N = np.where(found.more_N, "more", "fewer"), np.exp(found.log_p_N)
    by_chance_N = np.exp(found.log_chance_N) if observed else p_N * tensor.nnz
    chances = (p_N, found.log_p_N / np.log(10), by_chance_N)
    values = [*labels, found.counts_N, -np.expm1(-found.x_N), *expected, sides, *chances]
    frame = pd.DataFrame(dict(zip([*tensor.names, *COLUMNS], values, strict=True)))
    if with_unknown:
        frame[UNKNOWN] = unknown_words(model.axes_, cell_positions(model.axes_, shown, unknown))
    frame = frame if observed else frame.drop(columns="probability")
    frame.attrs["not_looked_at"] = _not_looked_at(model, ask.tensor) if n_absent else {}
    return frame


def _not_looked_at(model: CountModel, tensor: CountTensor) -> dict[str, int]:
    """Return how many labels of each axis a tensor lacks; of a new month it lacks all others."""
    found = {axis.name: tensor.axis(axis.name).find(axis.labels)[1] for axis in model.axes_}
    return {
        name: int((~in_D).sum()) for name, in_D in found.items() if in_D.any() and not in_D.all()
    }


def _how_many_absent(absent: int | None, tail: Tail, tensor: CountTensor, observed: bool) -> int:
    """Return how many empty cells to list; refuse what has none."""
    if absent is None:
        return ABSENT if observed and tail != "upper" and tensor.part is not None else 0
    if absent and not observed:
        raise ParameterError(
            "`absent` needs a model fitted with zeros='observed', and no `given`: else nothing is "
            "known of cells without a count. Leave it out."
        )
    if absent and tail == "upper":
        raise ParameterError(
            "`absent` has no effect with tail='upper', which looks for counts that are too large. "
            "Use tail='lower' or 'both'."
        )
    return absent


class _Found(NamedTuple):
    """Cells, by their positions on a tensor's axes, and how unlikely they are."""

    cells_NM: Cells
    counts_N: Ints
    x_N: Floats
    more_N: Mask
    log_p_N: Floats
    log_chance_N: Floats

    def at(self, order: npt.NDArray[np.intp]) -> _Found:
        """Return some of the cells."""
        return _Found._make(array[order] for array in self)

    def joined(self, other: _Found) -> _Found:
        """Return the cells of both."""
        pairs: Any = zip(self, other, strict=True)
        return _Found._make(np.concatenate(pair) for pair in pairs)


class _Asked(NamedTuple):
    """What a model is asked: how unlikely the cells of a tensor are."""

    model: CountModel
    tensor: CountTensor
    tail: Tail
    unknown: Unknown

    def given_a_count(self, positive: bool = False) -> _Found:
        """Judge counts by themselves; of at least one, if that is not what the model knows."""
        tensor = self.tensor
        log_p_N, more_N = self.in_parts(
            tensor.indices,
            lambda said, part: _log_p(said, tensor.counts[part], self.tail),
            positive=positive,
        )
        log_chance_N = log_p_N + np.log(max(tensor.nnz, 1))
        x_N = np.full(tensor.nnz, np.inf)
        return _Found(tensor.indices, tensor.counts, x_N, more_N, log_p_N, log_chance_N)

    def among_all_cells(self, n_absent: int) -> _Found:
        """Judge that there is a count, or none, among all cells, and how many there are."""
        tensor, occurrences = self.tensor, Occurrences(self.model, self.tensor, self.unknown)
        x_N, drawn = occurrences.at(tensor.indices), draw_empty_cells(tensor, EMPTY_CELLS)
        x_Z, weight_Z = occurrences.at(drawn.indices_ZM), drawn.weight_Z
        if n_absent:  # what is found counts for itself, and stands for no other cell
            cells_AM, x_A = likely_empty(occurrences, drawn, x_Z, x_N, n_absent)
            keys_A, keys_Z = (
                cell_keys(each, tensor.shape) for each in (cells_AM, drawn.indices_ZM)
            )
            weight_Z = np.where(np.isin(keys_Z, keys_A), 0.0, weight_Z)
            x_Z, weight_Z = np.append(x_Z, x_A), np.append(weight_Z, np.ones(len(x_A)))
        weight_D = np.append(weight_Z, np.ones(len(x_N)))
        chances = Chances.of(np.append(x_Z, x_N), weight_D)
        found = self._counted(x_N, chances)
        if not n_absent:
            return found
        return found.joined(_absent(cells_AM[:n_absent], x_A[:n_absent], chances))

    def _counted(self, x_N: Floats, chances: Chances) -> _Found:
        """Judge cells with a count: by how many there are and, but below, that there is one."""
        found = self.given_a_count(positive=True)
        log_p_N, more_N = self._drawn().at(found.log_p_N), found.more_N
        if self.tail != "lower":
            log_any_N = np.log(chances.counted(x_N))
            more_N = more_N | (log_any_N < log_p_N)
            log_p_N = chances.either(np.minimum(log_p_N, log_any_N))
        log_chance_N = log_p_N + np.log(max(self.tensor.nnz, 1))
        return _Found(found.cells_NM, found.counts_N, x_N, more_N, log_p_N, log_chance_N)

    def _drawn(self) -> DrawnShares:
        """Draw counts of some of the cells that have one, and judge them by themselves."""
        rng = np.random.default_rng(0)
        some = slice(None, None, -(-max(self.tensor.nnz, 1) // DRAWN_CELLS))
        (log_p_S,) = self.in_parts(
            self.tensor.indices[some],
            lambda said, _: (
                np.concatenate(
                    [_log_p(said, y_N, self.tail)[0] for y_N in said.sample(rng, DRAWS)]
                ),
            ),
            positive=True,
        )
        return DrawnShares.of(log_p_S)

    def in_parts(
        self,
        cells_NM: Cells,
        ask: Callable[[CountDistribution, slice], tuple[npt.NDArray[Any], ...]],
        *,
        positive: bool = False,
    ) -> list[npt.NDArray[Any]]:
        """Ask for arrays of the cells' predictive distributions, some cells at a time."""
        cells = CountTensor.of_canonical(self.tensor.axes, cells_NM, np.ones(len(cells_NM), int))
        positions = cell_positions(self.model.axes_, cells, self.unknown)
        starts = range(0, max(1, len(positions)), CELLS_AT_ONCE)
        parts = [slice(start, start + CELLS_AT_ONCE) for start in starts]
        found = []
        for part in parts:
            said = self.model._predictive(positions[part])
            found.append(ask(said.given_positive() if positive else said, part))
        return [np.concatenate(arrays) for arrays in zip(*found, strict=True)]


def _absent(cells_AM: Cells, x_A: Floats, chances: Chances) -> _Found:
    """Return empty cells, judged among all empty cells."""
    zeros_A, log_chance_A = np.zeros(len(x_A), np.int64), np.log(chances.empty(x_A))
    log_p_A = log_chance_A - np.log(max(chances.empty_C[0], 1.0))
    return _Found(cells_AM, zeros_A, x_A, zeros_A > 0, np.minimum(log_p_A, 0.0), log_chance_A)


def _log_p(predictive: CountDistribution, counts_N: Ints, tail: Tail) -> tuple[Floats, Mask]:
    """Return the log p-values of cells, and whether they have more than expected."""
    if tail == "upper":
        return predictive.log_at_least(counts_N), np.ones(len(counts_N), bool)
    if tail == "lower":
        return predictive.log_at_most(counts_N), np.zeros(len(counts_N), bool)
    log_half_N = predictive.log_pmf(counts_N) - np.log(2)
    upper_N = _without(predictive.log_at_least(counts_N), log_half_N)
    lower_N = _without(predictive.log_at_most(counts_N), log_half_N)
    two_sided_N = np.minimum(np.log(2) + np.minimum(upper_N, lower_N), 0.0)
    return two_sided_N, upper_N <= lower_N


def _without(log_tail_N: Floats, log_half_N: Floats) -> Floats:
    """Take half of the count's own probability out of a tail; at least that half is left."""
    share_N = np.exp(np.minimum(log_half_N - log_tail_N, -np.log(2)))
    return np.asarray(log_tail_N + np.log1p(-share_N))
