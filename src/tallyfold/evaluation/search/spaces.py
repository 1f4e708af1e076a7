"""What a search may choose from: spaces as plain data, checked against a model's rules."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tallyfold.errors import ParameterError
from tallyfold.models.base import CountModel

if TYPE_CHECKING:
    from optuna import Trial

Space = Mapping[str, Sequence[Any]]
"""By parameter: a list of choices, or a range such as ``("log", 1e-4, 1e-2)``."""

LARGEST_RANGE = 2**53
WHOLE = ("int", "log-int")
RANGES = (*WHOLE, "float", "log")

PAPER_COMPONENTS = [5, 10, 15, 20, 50]
PAPER_SHAPES = [0.1, 1.0, 10.0]
PAPER_RATES = [1e-4, 1e-3, 1e-2]
PAPER_L2 = [1e-3, 1e-2, 1e-1, 1.0, 10.0]

SPACES: dict[str, dict[str, Sequence[Any]]] = {
    # There is no grid in the literature.
    "vae-bptf": {"n_components": PAPER_COMPONENTS, "prior_shape": [0.3, 1.0, 3.0, 10.0]},
    # The values that appear in the paper's table of results; theta and eta go together.
    "vae-bptf-paper": {
        "n_components": [3, 5, 10, 15],
        "hidden_layers": [0, 1, 2],
        "hidden_units": [10, 20],
        "hidden_activation": ["softplus", "relu"],
        "output_activation": ["softplus"],
        "theta,eta": [[3.0, 10.0], [5.0, 10.0], [5.0, 20.0], [10.0, 50.0]],
        "weight_variance": [0.1, 1.0, 5.0],
    },
    "bptf": {"n_components": PAPER_COMPONENTS, "prior_shape": PAPER_SHAPES},
    "bptf-gibbs": {"n_components": PAPER_COMPONENTS, "prior_shape": PAPER_SHAPES},
    "online-gibbs": {"n_components": PAPER_COMPONENTS, "c": PAPER_SHAPES, "g": PAPER_SHAPES},
    "ptf-kl": {"n_components": PAPER_COMPONENTS},
    "ntf-ls": {"n_components": PAPER_COMPONENTS, "learning_rate": PAPER_RATES, "l2": PAPER_L2},
    "mlp-tf": {
        "embedding_size": PAPER_COMPONENTS,
        "hidden_layers": [1, 2, 3],
        "hidden_units": [10, 20, 50],
        "learning_rate": PAPER_RATES,
        "l2": PAPER_L2,
    },
    "main-effects": {"prior_shape": PAPER_SHAPES},
    "margins": {"scale": ["auto", None]},
    "smoothed-past": {"scale": ["auto", None]},
    "moving-average": {"window": [1, 2, 4, 8, 13]},
    "seasonal-naive": {"period": [4, 7, 12, 52]},
    "last-value": {"scale": ["auto", None]},
    "constant": {"likelihood": ["histogram", "poisson", "negative-binomial"]},
}
"""Ready spaces, by model: the paper's grids where it has one. Names with a comma between them are
chosen together."""


@dataclass(frozen=True)
class Dimension:
    """One thing to choose: a parameter or several together, from a list or from a range."""

    key: str
    given: tuple[Any, ...]

    @property
    def names(self) -> list[str]:
        """The parameters that are chosen together; most often one."""
        return [name.strip() for name in self.key.split(",")]

    @property
    def range(self) -> tuple[str, float, float] | None:
        """Kind, low and high end of a range; None for a list of choices."""
        kind, *ends = self.given
        numbers = all(isinstance(end, int | float) and math.isfinite(end) for end in ends)
        return (kind, *ends) if kind in RANGES and len(ends) == 2 and numbers else None

    @property
    def size(self) -> float:
        """How many values there are; infinite for a range of real numbers."""
        if self.range is None:
            return len(self.given)
        kind, low, high = self.range
        return high - low + 1 if kind in WHOLE else math.inf

    @property
    def stored_choices(self) -> list[str]:
        """The choices of a list as Optuna stores them: JSON text."""
        return [json.dumps(choice) for choice in self.given]

    def draw(self, rng: np.random.Generator) -> Any:
        """Draw one of the values of a finite dimension, all equally likely, as it is stored."""
        if self.range is None:
            return self.stored_choices[rng.integers(len(self.given))]
        _, low, high = self.range
        return int(rng.integers(int(low), int(high), endpoint=True))

    def suggest(self, trial: Trial) -> None:
        """Have Optuna choose a value; choices are stored as JSON text."""
        if self.range is None:
            trial.suggest_categorical(self.key, self.stored_choices)
            return
        kind, low, high = self.range
        if kind in WHOLE:
            trial.suggest_int(self.key, int(low), int(high), log=kind == "log-int")
        else:
            trial.suggest_float(self.key, low, high, log=kind == "log")

    def parameters(self, stored: Any) -> dict[str, Any]:
        """Return the model's parameters that a stored value stands for."""
        value = json.loads(stored) if self.range is None else stored
        return dict(zip(self.names, value if len(self.names) > 1 else [value], strict=True))


@dataclass(frozen=True)
class CheckedSpace:
    """A space that a model's rules allow, as the search uses it."""

    dimensions: tuple[Dimension, ...]

    @property
    def size(self) -> float:
        """How many points there are; infinite with a range of real numbers."""
        return math.prod(dimension.size for dimension in self.dimensions)

    @property
    def names(self) -> list[str]:
        """The parameters that are searched."""
        return [name for dimension in self.dimensions for name in dimension.names]

    def draw(self, rng: np.random.Generator) -> dict[str, Any]:
        """Draw one of the points of a finite space, all equally likely, as it is stored."""
        return {dimension.key: dimension.draw(rng) for dimension in self.dimensions}

    def parameters(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Return the model's parameters at a point, as far as its values are chosen."""
        chosen = [each.parameters(point[each.key]) for each in self.dimensions if each.key in point]
        return {name: value for part in chosen for name, value in part.items()}


def space_for(model: CountModel, space: Space | str | None) -> CheckedSpace:
    """Return the space of a search: the one given, the one of a name, or the model's own.

    Every choice, and both ends of every range, must keep the rule of its parameter.
    """
    if space is None:
        space = model.name
    if isinstance(space, str):
        if space not in SPACES:
            raise ParameterError(f"`space` must be one of {', '.join(SPACES)}; got {space!r}.")
        space = SPACES[space]
    if not isinstance(space, Mapping) or not space:
        raise ParameterError(
            "`space` must be a dict of parameters and their choices, such as "
            f"{{'n_components': [5, 10]}}; got {space!r}."
        )
    checked = CheckedSpace(tuple(_dimension(str(key), given) for key, given in space.items()))
    for name in checked.names:
        _check_name(name, checked.names, model)
    for dimension in checked.dimensions:
        _check_values(dimension, model)
    return checked


def _dimension(key: str, given: Any) -> Dimension:
    if not isinstance(given, list | tuple | np.ndarray) or len(given) == 0:
        raise ParameterError(
            f"`space` must give {key!r} a list of choices, or a range such as ('log', 1e-4, 1e-2); "
            f"got {given!r}."
        )
    return Dimension(key, tuple(_plain(value) for value in given))


def _check_name(name: str, names: Sequence[str], model: CountModel) -> None:
    known = model.get_params()
    if name == "random_state":
        raise ParameterError("`space` must not have 'random_state': a lucky seed is no setting.")
    if name not in known:
        others = ", ".join(other for other in known if other != "random_state")
        raise ParameterError(
            f"`space` has {name!r}, which is no parameter of {model.name}; there are {others}."
        )
    if names.count(name) > 1:
        raise ParameterError(f"`space` has {name!r} twice.")


def _check_values(dimension: Dimension, model: CountModel) -> None:
    for value in _bounds_or_choices(dimension):
        together = value if len(dimension.names) > 1 else [value]
        if not isinstance(together, list) or len(together) != len(dimension.names):
            raise ParameterError(
                f"`space` must give {dimension.key!r} lists of {len(dimension.names)} values, "
                f"chosen together; got {value!r}."
            )
        for name, each in zip(dimension.names, together, strict=True):
            rule = model.rules.get(name)
            if rule is not None and not rule.holds(each):
                raise ParameterError(f"`{name}` must be {rule.wanted}; `space` has {each!r}.")
    if len({json.dumps(choice) for choice in dimension.given}) < len(dimension.given):
        raise ParameterError(f"`space` has a choice of {dimension.key!r} twice.")


def _bounds_or_choices(dimension: Dimension) -> Sequence[Any]:
    if dimension.range is None:
        return dimension.given
    kind, low, high = dimension.range
    whole = kind in WHOLE
    possible = low < high and (low > 0 or not kind.startswith("log"))
    if not possible or (whole and (low % 1 or high % 1 or high - low >= LARGEST_RANGE)):
        raise ParameterError(
            f"`space` must give {dimension.key!r} a range from a smaller to a larger number, above "
            f"zero if 'log', whole if 'int'; got {dimension.given!r}."
        )
    return [int(low), int(high)] if whole else [low, high]


def _plain(value: Any) -> Any:
    """Return a value as JSON knows it; refuse what it does not know."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ParameterError(
        f"`space` must hold numbers, words, True, False, None or lists of them; got {value!r}."
    )
