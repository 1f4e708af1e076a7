"""What a search may choose from: spaces as plain data, checked against a model's rules."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tallyfold.errors import ParameterError
from tallyfold.models.base import CountModel

Space = Mapping[str, Sequence[Any]]
"""By parameter: a list of choices, or a range such as ``("log", 1e-4, 1e-2)``."""

LARGEST_RANGE = 2**53
RANGES = ("int", "log-int", "float", "log")

PAPER_COMPONENTS = [5, 10, 15, 20, 50]
PAPER_SHAPES = [0.1, 1.0, 10.0]
PAPER_RATES = [1e-4, 1e-3, 1e-2]
PAPER_L2 = [1e-3, 1e-2, 1e-1, 1.0, 10.0]

SPACES: dict[str, dict[str, Sequence[Any]]] = {
    # The anchored form has no grid in the literature: what its encoders are pulled by matters.
    "vae-bptf": {
        "n_components": PAPER_COMPONENTS,
        "prior_shape": [0.3, 1.0, 3.0, 10.0],
        "weight_variance": [0.01, 0.1, 1.0],
    },
    # The values that appear in the paper's table of results; theta and eta go together.
    "vae-bptf-paper": {
        "encoder": ["paper"],
        "truncated": [False],
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
    "ntf-ls": {
        "n_components": PAPER_COMPONENTS,
        "learning_rate": PAPER_RATES,
        "l2": PAPER_L2,
    },
    "mlp-tf": {
        "embedding_size": PAPER_COMPONENTS,
        "hidden_layers": [1, 2, 3],
        "hidden_units": [10, 20, 50],
        "learning_rate": PAPER_RATES,
        "l2": PAPER_L2,
    },
    "main-effects": {"prior_shape": PAPER_SHAPES},
    "constant": {"likelihood": ["poisson", "negative-binomial"]},
}
"""Ready spaces, by model: the paper's grids where it has one. Names with a comma between them are
chosen together."""


@dataclass(frozen=True)
class Dimension:
    """One thing to choose: a parameter or several together, from a list or from a range."""

    names: tuple[str, ...]
    given: tuple[Any, ...]

    @property
    def key(self) -> str:
        """The name it has in the space."""
        return ",".join(self.names)

    @property
    def range(self) -> tuple[str, float, float] | None:
        """Kind, low and high end of a range; None for a list of choices."""
        return self.given if is_range(self.given) else None

    @property
    def codes(self) -> Sequence[Any] | None:
        """What a storage calls the choices, JSON text; whole numbers of a range; None: endless."""
        if self.range is None:
            return [json.dumps(choice) for choice in self.given]
        kind, low, high = self.range
        return range(int(low), int(high) + 1) if kind in ("int", "log-int") else None

    def parameters(self, code: Any) -> dict[str, Any]:
        """Return the model's parameters that a code stands for."""
        value = json.loads(code) if self.range is None else code
        return dict(zip(self.names, value if len(self.names) > 1 else [value], strict=True))


@dataclass(frozen=True)
class CheckedSpace:
    """A space that a model's rules allow, as the search uses it."""

    dimensions: tuple[Dimension, ...]

    @property
    def size(self) -> float:
        """How many points there are; infinite with a range of real numbers."""
        sizes = [math.inf if d.codes is None else len(d.codes) for d in self.dimensions]
        return math.prod(sizes)

    def points(self) -> Iterator[dict[str, Any]]:
        """Yield every point of a finite space, as codes by the names of its dimensions."""
        keys = [dimension.key for dimension in self.dimensions]
        for codes in itertools.product(*(d.codes or () for d in self.dimensions)):
            yield dict(zip(keys, codes, strict=True))

    def drawn(self, rng: np.random.Generator) -> dict[str, Any]:
        """Draw a point of a finite space, each as likely as any other."""
        return {d.key: d.codes[int(rng.integers(len(d.codes)))] for d in self.dimensions if d.codes}

    def parameters(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Return the model's parameters at a point."""
        return {
            name: value
            for dimension in self.dimensions
            for name, value in dimension.parameters(point[dimension.key]).items()
        }

    def document(self) -> dict[str, Any]:
        """Return the space as JSON holds it."""
        return {dimension.key: list(dimension.given) for dimension in self.dimensions}


def space_for(model: CountModel, space: Space | str | None) -> CheckedSpace:
    """Return the space of a search: the one given, the one of a name, or the model's own.

    Every choice, and both ends of every range, must keep the rule of its parameter.
    """
    if space is None:
        form = "-paper" if model.get_params().get("encoder") == "paper" else ""
        space = model.name + form
    if isinstance(space, str):
        if space not in SPACES:
            raise ParameterError(f"`space` must be one of {', '.join(SPACES)}; got {space!r}.")
        space = SPACES[space]
    if not isinstance(space, Mapping) or not space:
        raise ParameterError(
            "`space` must be a dict of parameters and their choices, such as "
            f"{{'n_components': [5, 10]}}; got {space!r}."
        )
    dimensions = tuple(_dimension(key, given) for key, given in space.items())
    names = [name for dimension in dimensions for name in dimension.names]
    for name in names:
        _check_name(name, names, model)
    for dimension in dimensions:
        _check_values(dimension, model)
    return CheckedSpace(dimensions)


def _dimension(key: Any, given: Any) -> Dimension:
    if not isinstance(given, list | tuple | np.ndarray) or len(given) == 0:
        raise ParameterError(
            f"`space` must give {key!r} a list of choices, or a range such as ('log', 1e-4, 1e-2); "
            f"got {given!r}."
        )
    return Dimension(
        tuple(name.strip() for name in str(key).split(",")), tuple(_plain(v) for v in given)
    )


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
    codes = dimension.codes
    if isinstance(codes, list) and len(set(codes)) < len(codes):
        raise ParameterError(f"`space` has a choice of {dimension.key!r} twice.")


def _bounds_or_choices(dimension: Dimension) -> Sequence[Any]:
    if dimension.range is None:
        return dimension.given
    kind, low, high = dimension.range
    whole = kind in ("int", "log-int")
    possible = low < high and (low > 0 or not kind.startswith("log"))
    if not possible or (whole and (low % 1 or high % 1 or high - low >= LARGEST_RANGE)):
        raise ParameterError(
            f"`space` must give {dimension.key!r} a range from a smaller to a larger number, above "
            f"zero if 'log', whole if 'int'; got {dimension.given!r}."
        )
    return [int(low), int(high)] if whole else [low, high]


def is_range(given: Sequence[Any]) -> bool:
    """Tell a range, such as ``("log", 1e-4, 1e-2)``, from a list of choices.

    Examples
    --------
    >>> is_range(("int", 2, 20)), is_range([2, 20]), is_range(["poisson", "negative-binomial"])
    (True, False, False)
    """
    kind, *ends = given
    return (
        isinstance(kind, str)
        and kind in RANGES
        and len(ends) == 2
        and all(isinstance(end, int | float) and math.isfinite(end) for end in ends)
    )


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
