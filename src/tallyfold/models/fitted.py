"""What a fit leaves, as one value that can be saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tallyfold.data.axis import Axis
from tallyfold.data.formats.writing import axes_from_bytes, axes_to_bytes
from tallyfold.data.store.label_files import read_record
from tallyfold.errors import FormatError, StorageError
from tallyfold.inference.fit import state_arrays
from tallyfold.inference.fit.loop import Iteration
from tallyfold.kernels.arrays import Array, give_back
from tallyfold.models.record import Record
from tallyfold.posterior.count_head import CountHead
from tallyfold.posterior.derived_axis import DerivedAxis
from tallyfold.posterior.factors import Factors
from tallyfold.posterior.forecaster import Forecaster
from tallyfold.posterior.gamma_factors import GammaFactors
from tallyfold.posterior.named_arrays import Arrays, named, part_of
from tallyfold.posterior.occurrence import Occurrence
from tallyfold.posterior.point_factors import PointFactors
from tallyfold.posterior.predictive import Calibration, matched_mixture
from tallyfold.posterior.sampled_factors import SampledFactors
from tallyfold.probability.counts import CountLikelihood
from tallyfold.probability.distribution import CountDistribution
from tallyfold.probability.hurdle import HurdleCounts
from tallyfold.probability.mixture import CountMixture

FACTORS: dict[str, type[GammaFactors] | type[PointFactors] | type[SampledFactors]] = {
    "gamma": GammaFactors,
    "point": PointFactors,
    "sampled": SampledFactors,
}

LABELS_AT_ONCE = 1 << 18
Floats = npt.NDArray[np.float64]
Moments = Callable[[npt.NDArray[np.int32]], tuple[Floats, Floats]]


@dataclass(frozen=True)
class TrainedEncoders:
    """What takes in new cells without a fit.

    Attributes
    ----------
    params
        The parameters of every axis's encoder, then of every derived axis's.
    prior_rate_M
        The rate of each axis's prior, in units of the prior's shape.
    dispersion
        The r that the training counts were seen to have; None for that of the likelihood.
    """

    params: tuple[Floats, ...]
    prior_rate_M: Floats
    dispersion: float | None

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> TrainedEncoders | None:
        """Build from the arrays of `state_arrays.to_arrays`; None if there are none."""
        if not arrays:
            return None
        number = sum(name.startswith("params/") for name in arrays)
        empty = cls((np.empty(0),) * number, np.empty(0), None)
        return state_arrays.from_arrays(empty, arrays)


class EditRecord(NamedTuple):
    """What was done to components, and the scores of cells before and after; None without any."""

    what: str
    before: float | None = None
    after: float | None = None


@dataclass(frozen=True)
class Fitted:
    """Everything a fitted model knows.

    Attributes
    ----------
    axes
        The axes it was fitted on.
    factors
        Factors, for models that have them.
    likelihood, dispersion, calibration
        The distribution of a count given its rate; None for models without one.
    history, n_iter, reason
        How the fit went, which iteration was kept, and why it ended.
    validation_score
        The mean log pmf of the validation cells under the calibrated predictive distribution.
    parameters
        The parameters of the fit.
    extra
        Further arrays of a model, such as a network's weights.
    encoders
        What takes in new cells without a fit, for models that have it.
    others
        What further members of a mixture of fits left.
    head
        The learned distribution of counts of at least one; None: that of the likelihood.
    occurrence
        What tells, together with the factors, whether there is a count at all; the likelihood then
        is that of counts of at least one. None: the likelihood tells it.
    forecaster
        What tells cells of a period from those of earlier ones; None where time plays no part.
        Without factors it is what predicts, beside them what forecasts.
    smoothness
        The correlation of the factors of one step and the next, by axis, where it is not zero.
    component_names
        What components were named by hand, None for the others; empty if none was.
    component_stability
        How surely each component comes back in other fits (`stability`), None where that is not
        known; empty if it was never asked.
    edits
        What was done to the components after the fit, in words, with scores before and after where
        cells were given.
    record
        What the fit was made of, by which versions, and scores on held-out cells.
    """

    axes: tuple[Axis, ...]
    factors: Factors | None
    likelihood: CountLikelihood | None
    dispersion: float | None
    calibration: Calibration = field(default_factory=Calibration)
    history: Sequence[Iteration] = ()
    n_iter: int = 0
    reason: str = ""
    validation_score: float | None = None
    extra: Arrays = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    encoders: TrainedEncoders | None = None
    others: tuple[Fitted, ...] = ()
    head: CountHead | None = None
    occurrence: Occurrence | None = None
    forecaster: Forecaster | None = None
    smoothness: Mapping[str, float] = field(default_factory=dict)
    component_names: tuple[str | None, ...] = ()
    component_stability: tuple[float | None, ...] = ()
    edits: tuple[EditRecord, ...] = ()
    record: Record = field(default_factory=Record)

    @property
    def has_distribution(self) -> bool:
        """Whether there is a distribution of counts, not just a mean."""
        return self.likelihood is not None or self.head is not None

    def predictive(
        self, positions: npt.NDArray[np.int32], moments: Moments | None = None
    ) -> CountDistribution:
        """Return the predictive distributions of cells; -1 is an unknown label.

        `moments` gives mean and variance of the rates of cells, if factors do not.
        """
        if self.forecaster is not None and self.factors is None:
            return self.forecaster.distribution(positions)
        moments = moments or self.moments
        if self.occurrence is not None:
            return HurdleCounts(-self.rates(positions), self._amount(positions, moments))
        if self.head is None:
            return self._by_likelihood(moments(positions))
        amount = self.head.distribution(positions)
        if self.likelihood is None or self.likelihood.truncated:
            return amount
        if self.factors is None:  # all cells have the same chance of a count
            return HurdleCounts(np.full(len(positions), self.extra["log_zero"][0]), amount)
        return HurdleCounts(self._by_likelihood(moments(positions)).log_pmf(0), amount)

    def rates(self, positions: npt.NDArray[np.int32], moments: Moments | None = None) -> Floats:
        """Return the rates of cells, calibrated; -1 is an unknown label."""
        if self.forecaster is not None and self.factors is None:
            return self.forecaster.rates_of(positions)
        if self.occurrence is not None:
            assert isinstance(self.factors, GammaFactors)
            return np.exp(self.occurrence.log_rates(self.factors.gammas, positions))
        return self.calibration.rates((moments or self.moments)(positions)[0])

    def _amount(self, positions: npt.NDArray[np.int32], moments: Moments) -> CountDistribution:
        """Return the distributions of counts of at least one."""
        if self.head is not None:
            return self.head.distribution(positions)
        return self._by_likelihood(moments(positions)).given_positive()

    def _by_likelihood(self, moments: tuple[Floats, Floats]) -> CountMixture:
        assert self.likelihood is not None
        return matched_mixture(*moments, self.likelihood, self.dispersion, self.calibration)

    @property
    def derived(self) -> tuple[DerivedAxis, ...]:
        """Combinations of axes with multipliers, for models that have them."""
        return self.factors.gammas.derived if isinstance(self.factors, GammaFactors) else ()

    @property
    def gate(self) -> tuple[str, ...] | None:
        """The axes of the gate, by name; None without one, as always where zeros are missing."""
        if self.parameters.get("zeros") != "observed" or not self.derived:
            return None
        return tuple(self.axes[axis].name for axis in self.derived[0].axes)

    def moments(self, positions: npt.NDArray[np.int32]) -> tuple[Floats, Floats]:
        """Return mean and variance of the rates of cells, not calibrated; -1 is unknown."""
        assert self.factors is not None
        return self.factors.rate_moments(positions)

    def document(self) -> dict[str, Any]:
        """Return what goes into a model's JSON."""
        kinds = {kind: name for name, kind in FACTORS.items()}
        return {
            "factors": None if self.factors is None else kinds[type(self.factors)],  # type: ignore[index]
            "likelihood": self.likelihood
            and {"family": self.likelihood.family, "truncated": self.likelihood.truncated},
            "dispersion": self.dispersion,
            "calibration": vars(self.calibration),
            "history": [list(iteration) for iteration in self.history],
            "n_iter": self.n_iter,
            "reason": self.reason,
            "validation_score": self.validation_score,
            "smoothness": dict(self.smoothness),
            "component_names": list(self.component_names),
            "component_stability": list(self.component_stability),
            "edits": [list(edit) for edit in self.edits],
            "record": self.record.document(),
            "others": [other.document() for other in self.others],
        }

    def arrays(self) -> Arrays:
        """Return what goes into a model's arrays, the labels among them."""
        axes = {"axes": np.frombuffer(axes_to_bytes(self.axes), np.uint8)}
        others = [named(f"other_{n}/", other.arrays()) for n, other in enumerate(self.others)]
        return {n: a for arrays in (axes, self.numbers(), *others) for n, a in arrays.items()}

    def numbers(self) -> Arrays:
        """Return the arrays of numbers, those of other members left out."""
        arrays: Arrays = {}
        if self.factors is not None:
            arrays |= named("factors/", self.factors.arrays())
        arrays |= named("encoders/", state_arrays.to_arrays(self.encoders))
        if self.head is not None:
            arrays |= named("head/", self.head.arrays())
        if self.occurrence is not None:
            arrays |= named("occurrence/", self.occurrence.arrays())
        if self.forecaster is not None:
            arrays |= named("forecaster/", self.forecaster.arrays())
        return arrays | named("extra/", self.extra)

    @classmethod
    def restored(cls, document: dict[str, Any], arrays: Arrays, folder: str) -> Fitted:
        """Build from what `document` and `arrays` returned."""
        try:
            recorded = axes_from_bytes(arrays["axes"].tobytes(), folder)
            axes = tuple(
                axis_in_file(axis, arrays[name])
                if (name := f"labels_{n}.arrow") in arrays
                else axis
                for n, axis in enumerate(recorded)
            )
            kind = document["factors"]
            likelihood = document["likelihood"]
            return cls(
                axes,
                None if kind is None else _factors(kind, axes, arrays),
                likelihood and CountLikelihood(**likelihood),
                document["dispersion"],
                Calibration(**document["calibration"]),
                [Iteration(*record) for record in document["history"]],
                document["n_iter"],
                document["reason"],
                document["validation_score"],
                part_of(arrays, "extra/"),
                smoothness=_smoothness(document.get("smoothness", {}), axes),
                component_names=tuple(document.get("component_names", ())),
                component_stability=tuple(document.get("component_stability", ())),
                edits=tuple(EditRecord(*edit) for edit in document.get("edits", ())),
                encoders=TrainedEncoders.from_arrays(part_of(arrays, "encoders/")),
                head=CountHead.from_arrays(part_of(arrays, "head/")),
                occurrence=Occurrence.from_arrays(part_of(arrays, "occurrence/")),
                forecaster=Forecaster.from_arrays(part_of(arrays, "forecaster/")),
                record=Record.restored(document.get("record")),
                others=tuple(
                    cls.restored(other, part_of(arrays, f"other_{number}/"), folder)
                    for number, other in enumerate(document.get("others", ()))
                ),
            )
        except (KeyError, TypeError, ValueError, FormatError) as error:
            raise StorageError(f"{folder!r} is damaged: {error!r}") from error


def axis_in_file(axis: Axis, data: Array) -> Axis:
    """Return an axis whose labels stay in a file that is mapped; they are checked here."""
    labels, known = read_record(pa.py_buffer(data))
    if labels.type != axis.labels.type or labels.null_count:
        raise ValueError(f"labels of {axis.name!r} of another kind")
    for start in range(0, len(labels), LABELS_AT_ONCE):
        labels[start : start + LABELS_AT_ONCE].validate(full=True)
        give_back(data)
    return Axis.of_distinct(axis.name, labels, axis.order, known, partial(give_back, data))


def _smoothness(found: Mapping[str, float], axes: Sequence[Axis]) -> dict[str, float]:
    names = {axis.name for axis in axes}
    if not all(name in names and 0 < float(each) < 1 for name, each in found.items()):
        raise ValueError("courses of other axes")
    return {name: float(each) for name, each in found.items()}


def _factors(kind: str, axes: Sequence[Axis], arrays: Arrays) -> Factors:
    return FACTORS[kind].from_arrays(*names_and_labels(axes), part_of(arrays, "factors/"))


def names_and_labels(axes: Sequence[Axis]) -> tuple[list[str], list[Any]]:
    """Return the names of axes, and their labels."""
    return [axis.name for axis in axes], [axis.labels for axis in axes]
