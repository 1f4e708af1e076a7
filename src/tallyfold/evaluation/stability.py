"""How surely a fit finds its components again, and a model of those that it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tallyfold.data.markup import frame_html
from tallyfold.data.split import split
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import InferenceError, ParameterError
from tallyfold.evaluation.fit_and_score import fit_whole
from tallyfold.evaluation.holding_out import hidden_from, with_decided_zeros
from tallyfold.evaluation.many_fits import many_fits
from tallyfold.evaluation.search.cross_validation import (
    CrossValidation,
    fresh_model,
    metric_for,
)
from tallyfold.inference.cells.validation import hold_out
from tallyfold.kernels.arrays import Floats
from tallyfold.models.base import CountModel
from tallyfold.models.cells import checked_tensor
from tallyfold.models.guided import GuidedModel
from tallyfold.models.parameters import SEED, check_parameters, integer, number
from tallyfold.posterior.matching import (
    MOST,
    RECURS,
    SOME,
    Profiles,
    matched_overlaps,
    mutual_overlaps,
    recurring,
)

if TYPE_CHECKING:
    import pandas as pd


SHARE = 0.8
"""The share of the cells that each fit sees."""


class StabilityProgress(NamedTuple):
    """What a callback is given after each fit: the `number`-th of `total`, and its score."""

    number: int
    total: int
    score: float


@dataclass(frozen=True, repr=False)
class Stability:
    """How the components of a model fare in fits with other seeds on other cells.

    Attributes
    ----------
    model
        The model, with the stability of its components: lists and the page have it, too.
    metric
        The score of the hidden cells of each fit.
    runs
        A row per fit: its seed, the number of its components, the score of the cells hidden from
        it, and `stability`: the mean overlap of its components with those of the other fits.
    overlap_RK
        The overlap of each of the model's components with its partner in each fit.
    fits
        What the components of the fits say of labels.
    """

    model: CountModel
    metric: str
    runs: pd.DataFrame
    overlap_RK: Floats
    fits: Sequence[Profiles]

    @property
    def table(self) -> pd.DataFrame:
        """A row per component of the model.

        Its name and share; `stability`, the mean overlap with its partner over the fits, its
        standard deviation and least value; and `recurs`, the share of the fits in which the overlap
        is at least one half.
        """
        import pandas as pd

        on = np.flatnonzero(~self.model.posterior_.switched_off())
        names = self.model.component_names_
        return pd.DataFrame(
            {
                "component": on,
                "name": [names[k] for k in on],
                "share": self.model.posterior_.shares()[on],
                "stability": self.overlap_RK.mean(axis=0),
                "sd": self.overlap_RK.std(axis=0, ddof=1),
                "least": self.overlap_RK.min(axis=0),
                "recurs": (self.overlap_RK >= RECURS).mean(axis=0),
            }
        )

    def __repr__(self) -> str:
        table = self.table.drop(columns="sd").to_string(index=False, float_format="{:.2f}".format)
        return f"{self._title}\n{table}"

    def _repr_html_(self) -> str:
        return frame_html(self._title, self.table)

    @property
    def _title(self) -> str:
        return (
            f"Stability of {self.model.name} in {len(self.fits)} fits: "
            f"{int((self.table['recurs'] >= MOST).sum())} of {len(self.table)} components come "
            "back in half of them"
        )

    def consensus(self, tensor: CountTensor) -> CountModel:
        """Fit the model again, from the components that recur in at least half of the fits.

        Components of all fits that are alike make a group; the centre of each group is where a
        component starts. Those that do not recur are left out, so that it has as many components
        as recur. If a model with what recurs in a third of the fits predicts the cells that it
        holds out for itself better, it is that one; none of the fits has seen these cells.

        Parameters
        ----------
        tensor
            What to fit to: the cells that `stability` was given.
        """
        if not isinstance(self.model, GuidedModel):
            raise ParameterError(
                f"{type(self.model).__name__} cannot start from given components; BPTF and VAEBPTF "
                "can. Ask for the stability of one of these."
            )
        model = self._refitted(tensor, MOST)
        if model is None:
            raise InferenceError(
                f"no component recurs in half of {len(self.fits)} fits. Fit with fewer components, "
                "or to more cells."
            )
        wider = self._refitted(tensor, SOME, model.fitted_.parameters["n_components"])
        if wider is not None and _is_better(wider, model):  # something needed was left out
            model = wider
        own = profiles_of(model)
        return with_stability(model, np.stack([matched_overlaps(own, f) for f in self.fits]))

    def _refitted(
        self, tensor: CountTensor, least: float, more_than: int = 0
    ) -> GuidedModel | None:
        """Fit from the centres of components that recur in a share of the fits; None if too few.

        The cells that the model held out for itself are held out again.
        """
        centres = recurring(self.fits, least)
        if centres is None:
            return None
        assert isinstance(self.model, GuidedModel)
        guide, n_components = self.model.guide_from(centres)
        if n_components <= more_than:
            return None
        given: dict[str, Any] = {"n_components": n_components}
        if "gate" in self.model.fitted_.parameters:
            given["gate"] = self.model.gate_ or "none"
        plain = type(self.model)(**(self.model.fitted_.parameters | given))
        model = plain.starting_from(guide)
        fit_whole(model, tensor)
        return model


def _is_better(first: CountModel, second: CountModel) -> bool:
    """Tell whether a fit predicts the cells that it held out for itself better than another."""
    scores = [each.fitted_.validation_score for each in (first, second)]
    return scores[0] is not None and scores[1] is not None and scores[0] > scores[1]


@many_fits
def stability(
    tensor: CountTensor,
    model: str | type[CountModel] | CountModel = "vae-bptf",
    runs: int = 10,
    *,
    share: float = SHARE,
    metric: str | None = None,
    random_state: int = 0,
    callback: Callable[[StabilityProgress], None] | None = None,
) -> Stability:
    """Fit a model again and again, and see which of its components come back.

    Every fit has another seed and sees another share of the cells; the cells hidden from it score
    it. Cells that the model held out for itself, to stop or to learn from, are given to none.
    Components of two fits are matched by the overlap of what they say of all labels of all axes
    (`model.similar`), so that the sum of overlaps is largest (the Hungarian method); seeded ones
    by their names.

    Parameters
    ----------
    tensor
        The training part.
    model
        A fitted model whose components are judged; or a name from `MODELS`, a class or a model not
        fitted yet, which is fitted to the tensor first.
    runs
        How many fits.
    share
        The share of the cells that each fit sees.
    metric
        A score from `METRICS`; None as in `tune`.
    random_state
        Seed of the shares of cells. Each fit has the model's own seed plus its number.
    callback
        Called with a `StabilityProgress`.

    Examples
    --------
    >>> import tallyfold as tf
    >>> tensor = tf.simulate((30, 20, 10), n_components=2, density=0.3).tensor
    >>> found = stability(tensor, tf.BPTF(n_components=2, max_iter=30), runs=3)
    >>> found.table.columns.tolist()
    ['component', 'name', 'share', 'stability', 'sd', 'least', 'recurs']
    >>> found.consensus(tensor).n_components
    2
    """
    check_parameters(
        {"runs": runs, "share": share, "random_state": random_state},
        {"runs": integer(2), "share": number(0, 1), "random_state": SEED},
    )
    reference = _reference(model, checked_tensor(tensor))
    plain = fresh_model(type(reference)(**reference.fitted_.parameters))
    hidden = hidden_from([plain], tensor)
    kept = _not_held_out(plain, tensor)
    parts = [
        split(kept, 1 - share, cells=hidden, random_state=random_state + run) for run in range(runs)
    ]
    judged = CrossValidation(
        plain, parts, metric_for(plain, metric, tensor, hidden), random_state, hidden
    )
    own, rows = profiles_of(reference), []
    fits: list[Profiles] = []
    seed = plain.get_params().get("random_state", 0) + 1
    for run in range(runs):
        score = judged.score(
            {"random_state": seed},
            run,
            keep=lambda again: fits.append(profiles_of(again)),
        )
        rows.append((seed + run, len(fits[-1].share_K), score))
        if callback is not None:
            callback(StabilityProgress(run + 1, runs, score))
    overlap_RK = np.stack([matched_overlaps(own, fit) for fit in fits])
    return Stability(
        with_stability(reference, overlap_RK),
        judged.metric,
        _runs_table(rows, fits),
        overlap_RK,
        fits,
    )


def profiles_of(model: CountModel) -> Profiles:
    """Return what a model's components say of labels, with the names that were asked for."""
    names: tuple[str | None, ...] = ()
    if isinstance(model, GuidedModel):
        asked = {name for name in model.asked_names() if name is not None}
        names = tuple(name if name in asked else None for name in model.component_names_)
    return Profiles.of(model.posterior_, names if any(names) else ())


def _not_held_out(model: CountModel, tensor: CountTensor) -> CountTensor:
    """Return the cells that a model does not hold out for itself.

    A consensus holds the same ones out. It starts from the fits: had they seen these cells, it
    would know them from its start, stop too early, and be too sure of what it learns from them.
    """
    zeros = model._observed and model.holds_out_zeros
    return hold_out(tensor, model._validation_share(), model._seed, None, zeros)[0]


def _reference(asked: str | type[CountModel] | CountModel, tensor: CountTensor) -> CountModel:
    """Return a fitted model whose components are to be judged."""
    if "_fitted" in getattr(asked, "__dict__", {}) and isinstance(asked, CountModel):
        model: Any = asked
    else:
        fresh = fresh_model(asked)
        model = with_decided_zeros({fresh.name: fresh}, tensor)[fresh.name]
        fit_whole(model, tensor)
    _ = model.posterior_  # says so if it has no components
    if "random_state" not in model.get_params():
        raise ParameterError(
            f"{type(model).__name__} has no `random_state`: it finds the same each time."
        )
    if model.fitted_.others:
        raise ParameterError(
            "a mixture of several fits has components of its own in each; the stability of one fit "
            "is asked for: use n_members=1."
        )
    if tuple(tensor.axes) != model.axes_:
        raise ParameterError("`tensor` must have the axes and labels that the model was fitted on.")
    return model  # type: ignore[no-any-return]


def with_stability(model: CountModel, overlap_RK: Floats) -> CountModel:
    """Return the model with the stability of those of its components that are not switched off."""
    mean_K: list[float | None] = [None] * model.posterior_.n_components
    on = np.flatnonzero(~model.posterior_.switched_off())
    for component, value in zip(on.tolist(), overlap_RK.mean(axis=0).tolist(), strict=True):
        mean_K[component] = value
    return model._with_fitted(replace(model.fitted_, component_stability=tuple(mean_K)))


def _runs_table(rows: Sequence[tuple[int, int, float]], fits: Sequence[Profiles]) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame(rows, columns=["seed", "components", "score"])
    return frame.assign(stability=mutual_overlaps(fits))
