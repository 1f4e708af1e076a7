"""What a fitted model answers: predictions, scores, components; and how it is saved."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from tallyfold.data.axis import Axis
from tallyfold.data.seeds import fixed_seed
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import NoFactorsError, NotFittedError, ParameterError
from tallyfold.models.card import Card
from tallyfold.models.cells import (
    UNKNOWN,
    Unknown,
    beside_cells,
    cell_positions,
    checked_tensor,
    counts_like,
    unknown_by_axis,
    unknown_words,
)
from tallyfold.models.components import HasComponents
from tallyfold.models.count_groups import with_count_groups
from tallyfold.models.fitted import Fitted
from tallyfold.models.model_html import model_html
from tallyfold.models.parameters import (
    NONE,
    NUMBER,
    RANDOM_STATE,
    TEXT,
    check_parameters,
    integer,
    number,
    one_of,
)
from tallyfold.models.predicted_columns import predicted_columns, probability_of
from tallyfold.models.record import HeldOut
from tallyfold.models.scoring import mean_log_score
from tallyfold.posterior.factors import Factors
from tallyfold.posterior.predictive import Calibration
from tallyfold.probability.distribution import CountDistribution

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from tallyfold.report.explorer import Explorer

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


NO_NEW_CELLS = (
    "VAEBPTF, Margins and the models of earlier periods take in new cells. Fit this one again with "
    "all of them, or ask it of unknown labels by unknown='prior'."
)
NO_TRANSFORM = (
    "vectors(axis) has a row of factors for each label; for new labels fold_in(counts, axis) of "
    "VAEBPTF."
)
INSTEAD = {
    **dict.fromkeys(("fold_in", "partial", "update", "partial_fit"), NO_NEW_CELLS),
    **dict.fromkeys(("transform", "fit_transform"), NO_TRANSFORM),
    "predict_proba": "probability(cells) is that of any count, predictive(cells) of each.",
    "components_": "components(axis) lists them, posterior_.mean(axis) has their factors.",
    "feature_importances_": "interaction_effects(axis, axis) lists what combinations add.",
}
"""What to call in the place of methods that a model has not, by their names."""


class FittedModel(HasComponents):
    """The part of every model that asks what its fit left."""

    name: ClassVar[str]

    # -- what a fit left --------------------------------------------------------------------------

    @property
    def fitted_(self) -> Fitted:
        """Everything the fit left, as one value."""
        try:
            return self.__dict__["_fitted"]  # type: ignore[no-any-return]
        except KeyError:
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted yet; call fit(tensor) first."
            ) from None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Say what to call in the place of a method that other models or estimators have."""
            if name in INSTEAD:
                raise AttributeError(f"{type(self).__name__} has no {name!r}. {INSTEAD[name]}")
            return object.__getattribute__(self, name)  # the error that there is without this

    def __sklearn_is_fitted__(self) -> bool:
        """Tell scikit-learn whether the model is fitted."""
        return "_fitted" in self.__dict__

    @property
    def axes_(self) -> tuple[Axis, ...]:
        """The axes the model was fitted on."""
        return self.fitted_.axes

    @property
    def posterior_(self) -> Factors:
        """The factors, with their uncertainty where the model has any."""
        factors = self.fitted_.factors
        if factors is None:
            raise NoFactorsError(
                f"{type(self).__name__} has no factors. Components and profiles need a model that "
                "has, such as BPTF."
            )
        return factors

    @property
    def history_(self) -> pd.DataFrame:
        """Objective, seconds, validation score and phase of each iteration."""
        import pandas as pd

        columns = ["iteration", "objective", "seconds", "validation", "phase"]
        return pd.DataFrame(self.fitted_.history, columns=columns)

    @property
    def n_iter_(self) -> int:
        """The iteration that was kept: the last, or the best on the validation cells."""
        return self.fitted_.n_iter

    @property
    def random_state_(self) -> int | None:
        """The seed of the fit, also where `random_state` was None and it was drawn.

        A fit with it is the same fit. None for a model that draws nothing.
        """
        return self.fitted_.parameters.get("random_state")

    @property
    def converged_(self) -> bool:
        """Whether the fit ended by itself, not at `max_iter` or by hand."""
        return self.fitted_.reason in ("converged", "validation")

    @property
    def calibration_(self) -> Calibration:
        """How rates are turned into the predictive distribution."""
        return self.fitted_.calibration

    # -- predicting -------------------------------------------------------------------------------

    def predict(
        self,
        cells: Any,
        point: Literal["mean", "median"] = "mean",
        *,
        unknown: Unknown = "error",
        given: Literal["nonzero"] | None = None,
        output: Literal["array", "frame"] = "array",
        level: float | None = None,
    ) -> Any:
        """Predict the counts of cells, in the order in which they are given.

        Parameters
        ----------
        cells
            A CountTensor, a data frame of labels, or an array of positions, one row per cell.
        point
            The mean or the median of the predictive distribution. With ``zeros="missing"`` both
            are for the count given that the cell is observed.
        given
            ``"nonzero"``: how many, given that there is a count at all.
        unknown
            Labels the model does not know: an error, or ``"prior"`` to predict them as an average
            entity of their axis; on some axes only: ``{"month": "prior"}``.
        output
            ``"array"``, or ``"frame"`` for the cells with a column ``"mean"`` or ``"median"``
            beside them, and where zeros are observed ``"probability"``, that of any count: a frame
            as it was given, with all its columns and its index; of a tensor or of positions, a
            pandas frame of labels. Where `unknown` allows ``"prior"``, a column ``"unknown"`` names
            the axes, with commas between, of which a cell's label is unknown.
        level
            With ``output="frame"``, columns ``"low"`` and ``"high"``, too: the ends of the
            predictive interval of this level, such as 0.9. None: no interval.

        Examples
        --------
        >>> import pandas as pd, tallyfold as tf
        >>> tensor = tf.simulate((30, 20), 2, density=0.3, axes=["user", "page"]).tensor
        >>> model = tf.BPTF(n_components=2, max_iter=20).fit(tensor)
        >>> cells = pd.DataFrame({"page": ["page-03", "page-01"], "user": "user-07"}, index=[8, 2])
        >>> model.predict(cells, output="frame").drop(columns="mean")
              page     user
        8  page-03  user-07
        2  page-01  user-07
        """
        check_parameters(
            {"point": point, "given": given, "output": output, "level": level},
            {
                "point": one_of("mean", "median"),
                "given": one_of("nonzero") | NONE,
                "output": one_of("array", "frame"),
                "level": number(0, 1) | NONE,
            },
        )
        positions = cell_positions(self.axes_, cells, unknown)
        if output == "frame":
            nonzero = given is not None
            columns = predicted_columns(self, positions, [point], level, nonzero=nonzero)
            if "prior" in unknown_by_axis(self.axes_, unknown).values():
                columns[UNKNOWN] = unknown_words(self.axes_, positions)
            return beside_cells(self.axes_, cells, columns)
        if level is not None:
            raise ParameterError("`level` is for output='frame'; `interval` returns an array.")
        some = None if given is None else self._predictive(positions).given_positive()
        return self._point(positions, point, some)

    def probability(self, cells: Any, *, unknown: Unknown = "error") -> Floats:
        """Return the probability that there is a count at all, for models that know zeros."""
        found = self.predictive(cells, unknown=unknown).with_zeros()
        if found is None:
            raise ParameterError(
                "with zeros='missing' a model says how many, not whether there is any. Fit one "
                "with zeros='observed' for the probability of a count."
            )
        return probability_of(found)

    def rate(self, cells: Any, *, unknown: Unknown = "error") -> Floats:
        """Return the rates of cells: calibrated posterior means, before any truncation."""
        return self._rates(cell_positions(self.axes_, cells, unknown))

    def score(self, tensor: CountTensor, y: None = None, *, unknown: Unknown = "error") -> float:
        """Return the mean log predictive pmf of a tensor's counts, every constant in it.

        Given that y >= 1 where the likelihood is truncated. Of a part of all cells, such as
        ``split(cells="all")`` makes, a model whose zeros are observed is scored on its zeros, too:
        the sum over all cells, per cell that has a count. Where these are more than two million,
        300,000 empty ones are drawn.
        """
        refuse_y(y)
        return mean_log_score(self, tensor, unknown)

    def predictive(self, cells: Any, *, unknown: Unknown = "error") -> CountDistribution:
        """Return the predictive distributions of cells: pmf, cdf, mean, quantiles, draws."""
        return self._predictive(cell_positions(self.axes_, cells, unknown))

    def log_pmf(self, tensor: CountTensor, *, unknown: Unknown = "error") -> Floats:
        """Return the log predictive pmf of each non-zero cell of a tensor."""
        like = counts_like(self.axes_, tensor)
        if like.nnz < tensor.nnz:
            raise ParameterError(
                f"times cut as the model's are make {like.nnz:,} cells of {tensor.nnz:,}. Read the "
                "counts with axes=model.axes_, which cuts them, or take `score`, which does so."
            )
        positions = cell_positions(self.axes_, tensor, unknown)
        return self._predictive(positions).log_pmf(tensor.counts)

    def interval(self, cells: Any, level: float = 0.9, *, unknown: Unknown = "error") -> Ints:
        """Return, per cell, the counts between which `level` of the predictive mass lies."""
        check_parameters({"level": level}, {"level": number(0, 1)})
        positions = cell_positions(self.axes_, cells, unknown)
        return np.stack(self._predictive(positions).interval(level), axis=1)

    def sample(
        self, cells: Any, n: int = 100, *, random_state: int | None = 0, unknown: Unknown = "error"
    ) -> Ints:
        """Draw counts from the predictive distribution: n rows, one column per cell.

        Each cell is drawn by itself: draws of different cells share no draw of the factors. But
        where a model tells periods from those before, cells of a period share its level, so that
        the sum of a draw is a total of the period.
        """
        check_parameters(
            {"n": n, "random_state": random_state},
            {"n": integer(1), "random_state": RANDOM_STATE},
        )
        positions = cell_positions(self.axes_, cells, unknown)
        rng, forecaster = np.random.default_rng(random_state), self.fitted_.forecaster
        if forecaster is not None and self.fitted_.factors is None:
            return forecaster.sample(positions, rng, n)
        return self._predictive(positions).sample(rng, n)

    def vectors(self, axis: str) -> Floats:
        """Return a row of numbers for each label of an axis, near for labels that behave alike.

        Posterior mean factors, or what a network has in their place.
        """
        return self.posterior_.mean(axis)

    def card(self) -> Card:
        """Return what there is to know of the model: print it, or take its `facts`.

        Axes and their bins, zeros, parameters, the seed, how the fit went, a fingerprint of the
        data, scores on held-out cells, and versions. ``tallyfold describe MODEL`` prints it.
        """
        return Card(self)

    def explore(self, **given: Any) -> Explorer:
        """Return the explorer page, which notebooks show where it stands; see `tallyfold.explore`.

        Parameters
        ----------
        **given
            `test`, `train` and `title`, as in `tallyfold.write_report`.
        """
        from tallyfold.report.explorer import explore  # a user's way up; see tests/test_layers.py

        return explore(self, **given)  # type: ignore[arg-type]  # every one is a CountModel

    def _repr_html_(self) -> str:
        return model_html(self)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def keep_scores(self, scores: Mapping[str, float], test: CountTensor) -> None:
        """Keep scores on held-out cells with the model: `card` and `save` then have them.

        Parameters
        ----------
        scores
            By their names, such as ``{"log-score": model.score(test)}`` or what
            `tallyfold.evaluation.metrics.scores_of` returns.
        test
            The cells they were computed on.
        """
        for name, value in scores.items():
            check_parameters({"scores": value}, {"scores": NUMBER | NONE})
            check_parameters({"scores": name}, {"scores": TEXT})
        plain = {name: None if v is None else float(v) for name, v in scores.items()}
        self._keep_held_out(HeldOut(checked_tensor(test, "test").nnz, {self.name: plain}))

    def _keep_held_out(self, held_out: HeldOut) -> None:
        record = replace(self.fitted_.record, held_out=held_out)
        self._fitted = replace(self.fitted_, record=record)

    def forecast(self, horizon: int) -> Any:
        """Return a model whose axis of time also has the next labels, for all that can be asked.

        What is known of the past stays what it is; a period further away is less sure. The factors
        of VAEBPTF know no later period: its forecast is a `SmoothedPast`, with what it remembers.

        Parameters
        ----------
        horizon
            How many periods.
        """
        from tallyfold.models.forecast import forecast

        return forecast(self, horizon)

    # -- saving -----------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Save the fitted model in a folder; `tallyfold.load` reads it back."""
        from tallyfold.models.storage import save

        save(self, folder)  # type: ignore[arg-type]  # every one is a CountModel

    # -- inside ---------------------------------------------------------------------------------

    def _moments(self, positions: npt.NDArray[np.int32]) -> tuple[Floats, Floats]:
        """Return mean and variance of the rates of cells, not calibrated; -1 is unknown."""
        return self.posterior_.rate_moments(positions)

    def _point(
        self,
        positions: npt.NDArray[np.int32],
        point: str,
        predictive: CountDistribution | None = None,
    ) -> Floats | Ints:
        """Return the mean or median of cells; `predictive` is theirs, if it is known already."""
        if point == "mean" and not self.fitted_.has_distribution:
            return self._rates(positions)
        predictive = self._predictive(positions) if predictive is None else predictive
        return predictive.mean() if point == "mean" else predictive.median()

    def _rates(self, positions: npt.NDArray[np.int32]) -> Floats:
        return self.fitted_.rates(positions, self._moments)

    def _predictive(self, positions: npt.NDArray[np.int32]) -> CountDistribution:
        if not self.fitted_.has_distribution:
            raise ParameterError(
                f"{type(self).__name__} with these parameters predicts means only: it has no "
                "distribution of counts, so no median, score, interval or sample."
            )
        return self.fitted_.predictive(positions, self._moments)

    def _log_zero(self, positions: npt.NDArray[np.int32]) -> Floats:
        """Return the log probability of a zero in cells, where zeros are observed."""
        return self._predictive(positions).log_pmf(0)

    def to_datatree(
        self,
        tensor: CountTensor | None = None,
        n_draws: int | None = None,
        random_state: int | None = 0,
    ) -> xr.DataTree:
        """Return the posterior in ArviZ's schema; with a tensor, also what it says of its counts.

        Parameters
        ----------
        tensor
            Adds the groups ``observed_data``, ``log_likelihood`` and ``posterior_predictive`` of
            its non-zero cells: the counts, and for every draw of the factors their log
            probability and counts drawn. They are of the model as it was fitted, before its
            calibration.
        n_draws, random_state
            As in `posterior_.to_datatree`.

        Notes
        -----
        ArviZ 1 takes the tree itself; ArviZ 0.21 to 0.23 takes its groups:
        ``az.InferenceData(**{name: tree[name].to_dataset() for name in tree})``.
        """
        seed = fixed_seed(random_state)
        tree = self.posterior_.to_datatree(n_draws, seed)
        if tensor is None:
            return tree
        return with_count_groups(tree, self.fitted_, counts_like(self.axes_, tensor), n_draws, seed)


def refuse_y(y: object) -> None:
    """Refuse what scikit-learn calls targets: a tensor's own counts are learned."""
    if y is not None:
        raise ParameterError(
            f"`y` must be None: what is learned are the counts of the tensor; got "
            f"{type(y).__name__}. Leave it out."
        )
