"""Components that people ask for: labels that one should have, and one for what is common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tallyfold.data.axis import Axis, axis_number
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import LabelError, ParameterError
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.distributed.own_rows import OwnRows
from tallyfold.inference.distributed.process_group import current_group
from tallyfold.inference.schemes.found_seeds import find_seeds
from tallyfold.inference.schemes.guide import Guide, SeededLabels
from tallyfold.models.fitted import Fitted
from tallyfold.models.gamma_model import SweptModel
from tallyfold.models.parameters import NONE, Rule
from tallyfold.models.smoothing import Smooth, courses_of
from tallyfold.posterior.component_names import BACKGROUND, checked_name
from tallyfold.posterior.matching import Profiles

Strength = Literal["weak", "medium", "strong"]
STRENGTHS: dict[str, float] = {"weak": 0.05, "medium": 0.2, "strong": 1.0}
"""The part of a label's counts that is taken as seen before in the component it is a seed of."""


def _are_seeds(value: Any) -> bool:
    """Tell whether a value has the form of seeds; what they name is checked by the tensor."""
    if isinstance(value, str):
        return bool(value)
    if not isinstance(value, Mapping) or not value:
        return False
    return all(
        isinstance(axes, Mapping)
        and axes
        and all(isinstance(name, str) and _is_list(labels) for name, labels in axes.items())
        for axes in value.values()
    )


def _is_list(labels: Any) -> bool:
    return isinstance(labels, Sequence | np.ndarray) and not isinstance(labels, str | bytes)


SEEDS = (
    Rule(
        _are_seeds,
        "lists of labels by axis by name, {'networking': {'word': ['socket']}}, 'auto', an axis",
    )
    | NONE
)
Seeds = Annotated[Mapping[str, Mapping[str, Sequence[Any]]] | str | None, SEEDS]


@dataclass(kw_only=True, eq=False, repr=False)
class GuidedModel(SweptModel):
    """Base of models whose components people can ask for."""

    seeds: Seeds = None
    seed_strength: Strength = "medium"
    background: bool = False
    smooth: Smooth = "none"

    _guide: ClassVar[Guide | None] = None
    """What components start from; set on a model by `starting_from`."""

    def starting_from(self, guide: Guide) -> Self:
        """Return a model, not fitted yet, whose components start from what is known of them."""
        model = self._with()
        model.__dict__["_guide"] = guide
        return model

    def _with(self, **parameters: Any) -> Self:
        model = super()._with(**parameters)
        model.__dict__["_guide"] = self._guide
        return model

    def _check(self, tensor: CountTensor, *rest: Any) -> None:
        super()._check(tensor, *rest)
        self._check_guidance(tensor)
        courses_of(tensor.axes, self.smooth)

    @property
    def smoothness_(self) -> dict[str, float]:
        """How alike the factors of one step and the next are: their correlation, by axis.

        An axis that is not here has independent factors, as asked for or as learnt.
        """
        return dict(self.fitted_.smoothness)

    def _check_guidance(self, tensor: CountTensor) -> None:
        """Refuse seeds that a tensor does not have, or that cannot be."""
        if self.seed_strength != GuidedModel.seed_strength and self.seeds is None:
            raise ParameterError(
                f"`seed_strength` has no effect without `seeds`; got {self.seed_strength!r}. "
                "Leave it out, or say which labels a component should have."
            )
        if isinstance(self.seeds, str):
            self._found_axis(tensor.axes)
        names = list(self._asked)
        for name in names:
            checked_name(name)
        if self.background and BACKGROUND in names:
            raise ParameterError(
                f"{BACKGROUND!r} is the name of the component that background=True asks for; give "
                "your seeds another name."
            )
        n_asked, n_components = len(names) + self.background, self._n_components
        if n_asked > n_components or (self.background and n_components < 2):
            raise ParameterError(
                f"`n_components` must be at least {max(n_asked, 2)} for {len(names)} seeded "
                f"components{' and a background' if self.background else ''}; got {n_components}."
            )
        self._seeded_labels(tensor.axes)

    @property
    def _n_components(self) -> int:
        return int(self.get_params()["n_components"])

    @property
    def _asked(self) -> Mapping[str, Mapping[str, Sequence[Any]]]:
        """The seeds that are given by name."""
        return {} if self.seeds is None or isinstance(self.seeds, str) else self.seeds

    def _found_axis(self, axes: Sequence[Axis]) -> int | None:
        """Return the axis whose seeds are to be found; None: that of the largest baskets."""
        assert isinstance(self.seeds, str)
        if self.seeds == "auto":
            return None
        try:
            return axis_number(axes, self.seeds)
        except LabelError as error:
            raise LabelError(f"`seeds`: {error} 'auto' takes one of them.") from None

    def _guide_for(self, axes: Sequence[Axis], cells: TrainingCells) -> Guide:
        """Return what is known of components before a fit to cells of a tensor with these axes."""
        guide = replace(self._guide or Guide(), courses=courses_of(axes, self.smooth))
        if self.seeds is None and not self.background:
            return guide
        found = None
        if isinstance(self.seeds, str):
            n_components = self._n_components
            axis, n_found = self._found_axis(axes), n_components - self.background
            found = find_seeds(cells, axis, n_found, n_components)
        if found is not None:
            found = found if guide.starts is None else found.matched(guide.starts)
            guide = replace(guide, starts=found.starts)
        return replace(
            guide,
            found=found,
            seeds=tuple(self._seeded_labels(axes)),
            strength=STRENGTHS[self.seed_strength],
            background=self._n_components - 1 if self.background else None,
        )

    def asked_names(self) -> tuple[str | None, ...]:
        """Return what components are called before any is known; empty without guidance."""
        if self.seeds is None and not self.background:
            return ()
        names: list[str | None] = [None] * self._n_components
        names[: len(self._asked)] = list(self._asked)
        if self.background:
            names[-1] = BACKGROUND
        return tuple(names)

    def _own_rows(self, tensor: CountTensor) -> OwnRows | None:
        own = OwnRows.of(tensor, current_group())
        return own if own and self._lives_with_cells(tensor.axes, own.axis) else None

    def _lives_with_cells(self, axes: Sequence[Axis], axis: int) -> bool:
        """Whether the factors of an axis can be where its cells are, each in one process only.

        In sweeps over all entities they can, if nothing is known of components before.
        """
        asked = self.seeds is not None or self.background or self._guide is not None
        return not asked and axis not in courses_of(axes, self.smooth)

    def _named(self, fitted: Fitted) -> Fitted:
        return replace(fitted, component_names=self.asked_names())

    def guide_from(self, centres: Profiles) -> tuple[Guide, int]:
        """Return a guide that starts components from centres, and the number of components.

        Those asked for by name have their places; without a centre they start from their seeds.
        """
        asked, number = list(self._asked), len(centres.share_K)
        known = list(centres.known_names)
        others = [k for k in range(number) if known[k] is None]
        order = [known.index(name) if name in known else -1 for name in asked] + others
        background = [known.index(BACKGROUND) if BACKGROUND in known else -1]
        last = background if self.background else []
        order += last
        given = Guide.from_profiles(centres.weights, centres.share_K).starts
        assert given is not None
        starts = []
        for start_DK in given:
            extended_DK = np.column_stack([start_DK, np.full(len(start_DK), np.nan)])
            starts.append(extended_DK[:, order])
        return Guide(tuple(starts)), len(order)

    def _seeded_labels(self, axes: Sequence[Axis]) -> list[SeededLabels]:
        """Return the labels of all seeds by position; refuse what the axes do not have."""
        found: list[SeededLabels] = []
        owners: dict[tuple[int, int], str] = {}
        for component, (name, asked) in enumerate(self._asked.items()):
            for axis_name, labels in asked.items():
                axis, positions = _positions(axes, name, axis_name, labels)
                for position in positions.tolist():
                    owner = owners.setdefault((axis, position), name)
                    if owner != name:
                        raise ParameterError(
                            f"`seeds` has the {axis_name} {axes[axis].label(position)!r} in "
                            f"{owner!r} and in {name!r}; a label can pull towards one component "
                            "only."
                        )
                found.append(SeededLabels(component, axis, positions))
        return found

    def _plain_parameters(self) -> dict[str, Any]:
        plain = super()._plain_parameters()
        if not isinstance(self.smooth, str):
            plain["smooth"] = dict(self.smooth)
        if not self._asked:
            return plain
        seeds = {
            name: {axis: [_plain(label) for label in labels] for axis, labels in asked.items()}
            for name, asked in self._asked.items()
        }
        return plain | {"seeds": seeds}


def _positions(
    axes: Sequence[Axis], name: str, axis_name: str, labels: Sequence[Any]
) -> tuple[int, npt.NDArray[np.int32]]:
    """Return an axis and where labels of a seed stand on it."""
    where = f"`seeds` of {name!r}: "
    try:
        number = axis_number(axes, axis_name)
        if not len(labels):
            raise ParameterError(
                f"the list of {axis_name} labels is empty. Name one at least, or leave the axis "
                "out."
            )
        asked = _in_type(axes[number], labels)
        return number, np.unique(axes[number].positions(asked)).astype(np.int32)
    except (LabelError, ParameterError) as error:
        raise type(error)(f"{where}{error}") from None


def _in_type(axis: Axis, labels: Sequence[Any]) -> Any:
    """Return dates and times that were written as text, as they are in files, as what they are."""
    if not pa.types.is_temporal(axis.labels.type) or not all(isinstance(x, str) for x in labels):
        return labels
    try:
        return pa.array(labels, pa.string()).cast(axis.labels.type)
    except pa.ArrowInvalid:
        return labels  # which the axis refuses, with an example of its own


def _plain(label: Any) -> Any:
    if hasattr(label, "isoformat"):
        return label.isoformat()
    return label.item() if isinstance(label, np.generic) else label
