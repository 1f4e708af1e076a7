"""Models that take in new cells, of known and of new entities, without a fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Self

from tallyfold.data.tensor import CountTensor
from tallyfold.models import fold_in
from tallyfold.models.base import CountModel
from tallyfold.models.cells import counts_like
from tallyfold.models.fitted import Fitted


class TakesNewCells(CountModel):
    """The part of a model that takes in new cells.

    What a model says of an entity comes from sums over its cells, to which new cells are added;
    nothing is optimised and no old cell is needed. Give each cell once: counts that are
    all the same as those of the fit, or of an earlier call, are refused; single cells a model
    cannot know again.

    With observed zeros all cells of a new entity that are not given are zeros, unless the cells are
    a part of all (``split(cells="all")``): then the others are hidden.
    """

    def fold_in(self, counts: CountTensor, axis: str) -> Self:
        """Return a model that also knows new entities of an axis, from their cells alone.

        Labels of other axes must be known, those of `axis` must be new. What is known of other
        entities stays as it is.

        Parameters
        ----------
        counts
            The new entities' cells.
        axis
            The axis they are on.
        """
        return self._changed(counts, lambda fitted, cells: fold_in.fold_in(fitted, cells, axis))

    def partial(self, counts: CountTensor, *, again: bool = False) -> Self:
        """Return a model that has also seen new cells of entities it knows.

        With observed zeros these were empty before; cells of a part that was hidden from the fit
        (the test part of ``split(cells="all")``) bring their zeros with them.

        Parameters
        ----------
        counts
            The new cells; their labels must be known.
        again
            Whether they may be the same as those of the fit, or of an earlier call.
        """
        return self._changed(counts, fold_in.partial, again)

    def update(self, counts: CountTensor, *, again: bool = False) -> Self:
        """Return a model that has also seen new cells, of entities it knows and of new ones.

        Labels may be new on any axis, on several at once too: a new day with new users. It is what
        `partial` does with the cells of known entities; what is known of these changes, too.

        Parameters
        ----------
        counts
            The new cells. A model that remembers periods takes new ones for whole, as they stand:
            a week of which one day is there looks like a slow week, until the rest is added.
        again
            Whether they may be the same as those of the fit, or of an earlier call.

        Examples
        --------
        >>> import tallyfold as tf
        >>> tensor = tf.load_demo()
        >>> first, later = tf.split_entities(tensor, "word", 0.1)
        >>> model = tf.Margins().fit(first.compact())
        >>> larger = model.update(later.compact())
        >>> len(larger.axes_[1]) - len(model.axes_[1]) == len(later.compact().axis("word"))
        True
        """
        return self._changed(counts, fold_in.update, again)

    def _changed(
        self,
        counts: CountTensor,
        change: Callable[[Fitted, CountTensor], Fitted],
        again: bool = False,
    ) -> Self:
        """Take cells in, their times cut as those of the fit were."""
        model, fitted = self._with(), self.fitted_
        counts = counts_like(fitted.axes, counts, "counts")
        others = tuple(change(other, counts) for other in fitted.others)
        changed = change(fitted, counts)
        record = fitted.record.with_update(counts, again)
        model._fitted = replace(changed, others=others, record=record)
        return model
