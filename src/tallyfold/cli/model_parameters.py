"""Which model, with which parameters: from the command line and from a file."""

import functools
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from tallyfold.cli.options import option
from tallyfold.cli.terminal import say_aside
from tallyfold.errors import FormatError, ParameterError, did_you_mean

if TYPE_CHECKING:
    from tallyfold.data.tensor import CountTensor
    from tallyfold.inference.distributed.process_group import ProcessGroup
    from tallyfold.models.base import CountModel
    from tallyfold.models.parameters import Rule

DEFAULT = "vae-bptf"


_model = functools.partial(option, rich_help_panel="Model")
MODEL = f"Which model: {DEFAULT} if left out."
Model = Annotated[str | None, _model("NAME", MODEL)]
SET = "Any parameter of the model; none, true and false are words. Repeatable."
Set = Annotated[list[str] | None, _model("NAME=VALUE", SET, "--set")]
CONFIG = (
    "Parameters from a TOML file, in a table \\[model] or without, or from the JSON of tallyfold "
    "tune. The command line wins."
)
Config = Annotated[Path | None, _model("FILE", CONFIG)]
Components = Annotated[int | None, _model("K", "The number of components.", "--components", "-k")]
ZEROS = (
    "What cells without a row are: unknown, or counts of zero. auto (the default): unknown if the "
    "values look like ratings, else zeros."
)
Zeros = Annotated[str | None, _model("auto|missing|observed", ZEROS)]
SCALE = "The values that counts can have, for ratings: 1-5. auto recognises a scale, none has none."
Scale = Annotated[str | None, _model("LOW-HIGH", SCALE)]
MaxIter = Annotated[int | None, _model("N", "The most iterations.")]


class Given(NamedTuple):
    """A value for a parameter, and where it was given."""

    value: Any
    where: str


AUTO = Given("auto", "--zeros")
"""What empty cells are to a model if nobody says: it is decided when the counts are known."""


def chosen_model(name: str | None, config: Path | None, given: Mapping[str, Given]) -> "CountModel":
    """Make a model of the parameters in a file and of those given, which win.

    Where neither says what empty cells are, its zeros are ``"auto"`` until `decide_zeros`.
    """
    from tallyfold.models.registry import MODELS

    filed_name, filed = (None, {}) if config is None else parameters_in(config)
    name = name or filed_name or DEFAULT
    if name not in MODELS:
        meant = did_you_mean(name, MODELS)
        raise ParameterError(f"--model must be one of {', '.join(MODELS)}; got {name!r}.{meant}")
    kind = MODELS[name]
    known = kind().get_params()
    parameters = {}
    for key, one in ({"zeros": AUTO} | filed | dict(given)).items():
        if key not in known:
            raise unknown_parameter(key, one.where, name, list(known))
        parameters[key] = (
            asked_zeros(one) if key == "zeros" else typed(key, one, kind.rules.get(key))
        )
    return kind(**parameters)  # type: ignore[no-any-return]


def asked_zeros(given: Given) -> str:
    """Return what empty cells are to be; here every model knows the word auto."""
    from tallyfold.models.parameters import one_of

    return str(typed("zeros", given, one_of("auto", "missing", "observed")))


def decide_zeros(
    models: Iterable["CountModel"],
    tensor: "CountTensor",
    *,
    silent: bool,
    group: "ProcessGroup | None" = None,
) -> None:
    """Decide by the counts what empty cells are to models that were not told; say so in a line.

    All of them take the same; those with a scale of their own are for ratings. The cells are all of
    them, or those of one process of a group.
    """
    from tallyfold.inference.distributed.process_group import ALONE, use_group
    from tallyfold.models.complete_logs import CHOSEN, zeros_of

    undecided = [model for model in models if model.get_params()["zeros"] == "auto"]
    if not undecided:
        return
    with use_group(group or ALONE):  # without one, the first of several processes has all cells
        zeros = zeros_of(tensor)
    if any(isinstance(model.get_params().get("scale"), list) for model in undecided):
        zeros = "missing"
    for model in undecided:
        model.set_params(zeros=zeros)
    if not silent:
        other = "observed" if zeros == "missing" else "missing"
        say_aside(f"{CHOSEN[zeros]}; if not so, --zeros {other}.")


def settings(texts: Sequence[str] | None, **flags: Any) -> dict[str, Given]:
    """Gather what --set and the options of their own (by parameter) give; refuse one given twice.

    Examples
    --------
    >>> settings(["prior_shape=0.5"], n_components=None, max_iter=5)["prior_shape"].value
    '0.5'
    """
    found = {
        name: Given(value, OPTIONS[name]) for name, value in flags.items() if value is not None
    }
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ParameterError(f"--set wants NAME=VALUE; got {text!r}.")
        name = name.strip()
        if name in found:
            raise ParameterError(f"{name} is given twice: {found[name].where} and --set {text}.")
        found[name] = Given(value, f"--set {text}")
    return found


OPTIONS = {
    "n_components": "--components",
    "zeros": "--zeros",
    "max_iter": "--max-iter",
    "scale": "--scale",
}
"""Parameters that have an option of their own."""


def scale_of(text: str | None) -> Any:
    """Read the ends of a scale; other words stay as they are.

    Examples
    --------
    >>> scale_of("1-5"), scale_of("auto")
    ([1, 5], 'auto')
    """
    low, dash, high = (text or "").partition("-")
    if not dash:
        return text
    if not (low.strip().isdigit() and high.strip().isdigit()):
        raise ParameterError(f"--scale wants LOW-HIGH, such as 1-5, auto or none; got {text!r}.")
    return [int(low), int(high)]


def parameters_in(file: Path) -> tuple[str | None, dict[str, Given]]:
    """Read a model's name, if there is one, and parameters from a TOML or JSON file."""
    text = file.read_bytes().decode("utf-8", errors="replace")
    try:
        document = json.loads(text) if file.suffix.lower() == ".json" else tomllib.loads(text)
    except ValueError as error:
        raise FormatError(f"{file}: {error}.") from None
    if not isinstance(document, dict):
        raise FormatError(f"{file} must hold names and values; it holds a {type(document)}.")
    name = document.get("model")
    if isinstance(name, dict):
        found, name = dict(name), None
    elif isinstance(document.get("parameters"), dict):
        found = document["parameters"]
    else:
        found = {key: value for key, value in document.items() if key != "model"}
    name = found.pop("name", name) if "name" in found else name
    return name, {key: Given(value, str(file)) for key, value in found.items()}


def typed(name: str, given: Given, rule: "Rule | None") -> Any:
    """Read a value as the first type in which the parameter may have it.

    Examples
    --------
    >>> from tallyfold.models.parameters import NONE, integer
    >>> typed("max_iter", Given("none", "--set"), integer(1) | NONE) is None
    True
    """
    for value in _readings(given.value):
        if rule is None or rule.holds(value):
            return value
    assert rule is not None
    raise ParameterError(f"{name} must be {rule.wanted}; got {given.value!r} from {given.where}.")


def _readings(value: Any) -> Iterator[Any]:
    """Yield what a text may mean; other values mean themselves."""
    if not isinstance(value, str):
        yield value
        return
    for number in (int, float):
        try:
            yield number(value)
        except ValueError:
            continue
    yield from {"true": [True], "false": [False]}.get(value.lower(), [])
    yield value  # before None: some parameters have the word "none"
    yield from [None] if value.lower() in ("none", "null") else []
    try:
        yield json.loads(value)
    except ValueError:
        return


def unknown_parameter(key: str, where: str, model: str, known: list[str]) -> ParameterError:
    """Return an error that names the parameters there are, the most similar first."""
    meant = did_you_mean(key, known)
    return ParameterError(
        f"{key!r} ({where}) is no parameter of {model}.{meant} There are {', '.join(known)}."
    )
