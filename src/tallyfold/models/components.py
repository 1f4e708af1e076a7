"""What a fitted model answers about its components, and how people change them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from tallyfold.data.tensor import CountTensor
from tallyfold.models import explaining
from tallyfold.models.component_tree import ComponentTree
from tallyfold.models.editing import Edit, edited, in_words, names_of
from tallyfold.models.fitted import EditRecord, Fitted
from tallyfold.posterior.component_names import BACKGROUND, Component, number_of
from tallyfold.posterior.factors import SWITCHED_OFF, Factors
from tallyfold.posterior.label_order import By

if TYPE_CHECKING:
    import pandas as pd


class HasComponents:
    """The part of a fitted model that is about its components.

    Components are numbered by size: 0 has the largest share of the rate, and those that the prior
    has switched off come last. Wherever one is asked for, its number or its name will do.
    """

    fitted_: Any
    posterior_: Any

    @property
    def component_names_(self) -> list[str]:
        """What components are called: as they were named, or by labels that set them apart."""
        factors: Factors = self.posterior_  # says so if there are none
        assert factors is not None
        return names_of(self.fitted_)

    @property
    def edits_(self) -> pd.DataFrame:
        """What was done to components after the fit, with the scores of cells, if any were given.

        Columns: what, before and after.
        """
        import pandas as pd

        return pd.DataFrame(self.fitted_.edits, columns=list(EditRecord._fields))

    def components(
        self,
        axis: str,
        top: int = 10,
        *,
        by: By | None = None,
        relevance: float | None = None,
        least: float = SWITCHED_OFF,
    ) -> pd.DataFrame:
        """Return the first labels of each component on an axis, largest component first.

        The background of a model that has one comes last. Its labels are those it expects most of,
        with a gate by the multipliers of the gate as well: what is common, not what sets it apart.

        Parameters
        ----------
        axis, top
            The axis, and how many of its labels.
        by
            What labels are ranked by: ``"relevance"``, the share of the component that they surely
            have, the lower end of their interval, set off against their share of all that is
            expected; ``"sure"``, that lower end alone; ``"probability"``, their share of the
            component; ``"frex"``, the harmonic mean of their ranks by frequency and by
            exclusivity. None is ``"relevance"``.
        relevance
            From 0, what sets a component apart, to 1, what is likely in it; 0.4 unless given.
        least
            Components that the prior has switched off, which have less than `least` of an even
            share of the rate (`posterior_.switched_off`), are not listed; 0 lists all.
        """
        frame: pd.DataFrame = self.posterior_.components(
            axis,
            top,
            least=least,
            by=by,
            relevance=relevance,
            expected_D=explaining.expected_of_labels(self.fitted_, axis),
        )
        names = self.component_names_
        frame.insert(1, "name", [names[number] for number in frame["component"]])
        if BACKGROUND in names:
            frame = explaining.with_background(frame, self.fitted_, axis, top)
        if known := self.fitted_.component_stability:
            frame.insert(3, "stability", [known[number] for number in frame["component"]])
        return frame

    # -- changing them --------------------------------------------------------------------------

    def rename(self, names: Mapping[Component, str | None]) -> Self:
        """Return a model in which components are called otherwise.

        Parameters
        ----------
        names
            New names by component, such as ``{3: "networking"}``; None for the automatic name.
        """
        return self.edit(rename=names)

    def merge(
        self,
        components: Sequence[Component],
        name: str | None = None,
        *,
        cells: CountTensor | None = None,
    ) -> Self:
        """Return a model in which some components are one.

        It is the one whose margins are the sums of theirs: of every label of every axis it expects
        what they expect of it together, in a model with a gate with the gate. A sum of components
        has a higher rank, so cells are predicted differently: see by `cells` what that costs.

        Parameters
        ----------
        components
            Two or more, such as ``[3, 7]``.
        name
            What it is called; None for an automatic name, or the only one that was given.
        cells
            Held-out counts to score both models on; `edits_` has the scores.
        """
        rename = None if name is None or not len(components) else {components[0]: name}
        return self.edit(merge=[components], rename=rename, cells=cells)

    def drop(self, components: Sequence[Component], *, cells: CountTensor | None = None) -> Self:
        """Return a model without some components: their rate is gone from all predictions.

        Parameters
        ----------
        components
            Which, such as ``[9]``.
        cells
            Held-out counts to score both models on; `edits_` has the scores.
        """
        return self.edit(drop=components, cells=cells)

    def edit(
        self,
        *,
        rename: Mapping[Component, str | None] | None = None,
        merge: Sequence[Sequence[Component]] = (),
        drop: Sequence[Component] = (),
        cells: CountTensor | None = None,
    ) -> Self:
        """Return a model with several changes at once, all by the numbers of this one.

        Components of the new model are numbered by size again; this one stays as it is.

        Parameters
        ----------
        rename, merge, drop
            As in the methods of these names; `merge` is a list of groups. The new name of a
            component that is merged is that of what it becomes.
        cells
            Held-out counts to score both models on; `edits_` has the scores.

        Examples
        --------
        >>> import tallyfold as tf
        >>> tensor = tf.simulate((30, 40, 10), 4, density=0.2).tensor
        >>> model = tf.BPTF(n_components=4, max_iter=20).fit(tensor)
        >>> fewer = model.edit(merge=[[1, 3]], rename={1: "both", 0: "main"})
        >>> fewer.n_components, sorted(name for name in fewer.component_names_ if len(name) < 5)
        (3, ['both', 'main'])
        """
        edit = Edit(rename, merge, drop)
        names = self.component_names_
        fitted: Fitted = edited(self.fitted_, edit)
        model = self._with_fitted(fitted)
        scores: list[float] = []
        if cells is not None:
            scores = [each.score(cells) for each in (self, model)]  # type: ignore[attr-defined]
        record = EditRecord(in_words(edit, names), *scores)
        model._fitted = replace(fitted, edits=(*fitted.edits, record))  # type: ignore[attr-defined]
        return model

    def _with_fitted(self, fitted: Fitted) -> Self:
        """Return a model of the same kind with another result."""
        given: dict[str, Any] = self.get_params()  # type: ignore[attr-defined]
        changed = {n: fitted.parameters[n] for n in ("n_components",) if n in given}
        model = type(self)(**(given | changed))
        model._fitted = fitted  # type: ignore[attr-defined]
        return model

    # -- explaining them ------------------------------------------------------------------------

    def examples(
        self,
        component: Component,
        counts: CountTensor,
        *,
        of: Sequence[str] | None = None,
        top: int = 10,
    ) -> pd.DataFrame:
        """Return the cells with a count that show a component best.

        Columns: the labels, the count, and `share`: the component's part of the cell's rate. First
        come cells that it accounts for and was sure to bring about, by the product of this share
        and the probability of a count by its rate alone.

        Parameters
        ----------
        component
            Its number or name.
        counts
            Cells with a count to choose from, such as those the model was fitted on.
        of
            Axes, such as ``["module", "word"]``, whose combinations are shown instead, summed over
            the cells with a count of each.
        top
            How many.

        Examples
        --------
        >>> import tallyfold as tf
        >>> tensor = tf.simulate((30, 40, 10), 3, density=0.2).tensor
        >>> model = tf.BPTF(n_components=3, max_iter=20).fit(tensor)
        >>> model.examples(0, tensor, of=["axis_1"], top=2).columns.tolist()
        ['axis_1', 'count', 'share']
        """
        own = self._number(component)
        return explaining.examples(self.posterior_, self.fitted_.axes, counts, own, of, top)

    def similar(self, component: Component) -> pd.DataFrame:
        """Return the other components, the most alike first.

        `overlap` is one for a component that says the same of all labels, and zero for one that
        has none in common on some axis: Bhattacharyya's coefficient of the rates of both, the
        product of those on the axes, which are beside it.

        Parameters
        ----------
        component
            Its number or name.

        Examples
        --------
        >>> import tallyfold as tf
        >>> tensor = tf.simulate((30, 40, 10), 3, density=0.2).tensor
        >>> model = tf.BPTF(n_components=3, max_iter=20).fit(tensor)
        >>> model.similar(0)["component"].sort_values().tolist()
        [1, 2]
        """
        return explaining.similar(self.posterior_, self.component_names_, self._number(component))

    def tree(self) -> ComponentTree:
        """Return a tree of components, the most alike joined first; see `ComponentTree`.

        ``tree().lines()`` draws it, ``groups(3)`` cuts it into three groups, `to_frame` has all.
        """
        return explaining.tree(self.posterior_, self.component_names_)

    def course(self, component: Component, axis: str, level: float = 0.9) -> pd.DataFrame:
        """Return how a component rises and falls along an axis with an order, such as years.

        Columns: the label, its weight in the component with an interval from low to high, and
        `part`: the component's part of the label's whole rate.

        Parameters
        ----------
        component
            Its number or name.
        axis
            An axis whose labels are numbers, dates, time bins, or names of months or weekdays.
        level
            Of the interval.

        Examples
        --------
        >>> import tallyfold as tf
        >>> made = tf.simulate((9, 8, 7), 2).tensor
        >>> years = tf.Axis("year", range(2010, 2017))
        >>> tensor = tf.CountTensor([*made.axes[:2], years], made.indices, made.counts)
        >>> model = tf.BPTF(n_components=2, max_iter=5).fit(tensor)
        >>> model.course(0, "year")["label"].tolist()
        [2010, 2011, 2012, 2013, 2014, 2015, 2016]
        """
        number = self._number(component)
        return explaining.course(self.posterior_, number, self.fitted_.axes, axis, level)

    def _number(self, component: Component) -> int:
        return number_of(component, self.component_names_)
