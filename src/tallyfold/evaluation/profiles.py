"""What a model says of single entities: their profile, and what goes with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from tallyfold.data.seeds import fixed_seed
from tallyfold.errors import ParameterError
from tallyfold.evaluation.beside import PREDICTIONS, AxisBeside
from tallyfold.models.base import CountModel
from tallyfold.models.expected import checked_model
from tallyfold.models.parameters import RANDOM_STATE, check_parameters, integer, number, one_of
from tallyfold.posterior.factors import Factors
from tallyfold.posterior.sampled_factors import SampledFactors

if TYPE_CHECKING:
    import pandas as pd

Floats = npt.NDArray[np.float64]


def components(model: CountModel, axis: str, top: int = 10, **order: Any) -> pd.DataFrame:
    """Return the first labels of each component on an axis, largest component first.

    Parameters
    ----------
    model
        A fitted model with factors.
    axis, top
        The axis, and how many of its labels.
    **order
        What labels are ranked by: `by`, `relevance` and `least`, as in the method
        ``model.components``, which this is.

    Returns
    -------
    pandas.DataFrame
        A row per component and label: the component's share of the rate, the label's rank, and
        its weight in the component with a 90 % interval.

    Examples
    --------
    >>> import tallyfold as tf
    >>> tensor = tf.simulate((30, 40, 10), 3, density=0.2).tensor
    >>> model = tf.BPTF(n_components=3, max_iter=20).fit(tensor)
    >>> tf.components(model, "axis_1", top=5)["label"].size
    15
    """
    return checked_model(model).components(axis, top, **order)


def profile(model: CountModel, axis: str, label: Any, *, level: float = 0.9) -> pd.DataFrame:
    """Return an entity's factors, strongest component first.

    Parameters
    ----------
    model
        A fitted model with factors.
    axis, label
        The entity.
    level
        Of the posterior interval from `low` to `high`.

    Returns
    -------
    pandas.DataFrame
        A row per component, but for those that are switched off (``attrs["switched_off"]`` is
        their number): its share of the entity's rate over all cells, and the posterior mean and
        interval of the entity's factor. Without a posterior, `low` and `high` are the mean;
        ``attrs["posterior"]`` tells.

    Examples
    --------
    >>> import tallyfold as tf
    >>> tensor = tf.simulate((30, 40, 10), 3, density=0.2).tensor
    >>> model = tf.BPTF(n_components=3, max_iter=20).fit(tensor)
    >>> tf.profile(model, "axis_1", "axis_1-07").columns.tolist()
    ['component', 'name', 'share', 'mean', 'low', 'high']
    """
    import pandas as pd

    check_parameters({"level": level}, {"level": number(0, 1)})
    factors = checked_model(model).posterior_
    row = _position(model, axis, label)
    mean_K = factors.mean(axis)[row]
    weight_K = mean_K * _others(factors, [axis])
    frame = pd.DataFrame(
        {
            "component": np.arange(len(mean_K)),
            "name": model.component_names_,
            "share": weight_K / max(weight_K.sum(), 1e-300),
            "mean": mean_K,
            "low": factors.quantile(axis, (1 - level) / 2)[row],
            "high": factors.quantile(axis, (1 + level) / 2)[row],
        }
    )
    off_K = factors.switched_off()
    frame = frame[~off_K].sort_values("share", ascending=False, kind="stable", ignore_index=True)
    frame.attrs |= {"posterior": _is_uncertain(factors), "switched_off": int(off_K.sum())}
    return frame


def top(
    model: CountModel,
    axis: str,
    given: Mapping[str, Any] | None = None,
    *,
    top: int = 10,
    by: Literal["count", "probability", "factors"] = "count",
    draws: int = 50,
    random_state: int | None = 0,
) -> pd.DataFrame:
    """Return the entities of an axis of which most is predicted beside some given entities.

    Parameters
    ----------
    model
        A fitted model with factors.
    axis
        The axis whose entities are ranked.
    given
        Entities of other axes, such as ``{"author": "..."}``. Axes that are not given are averaged
        over. None: all of them are.
    top
        How many entities to return.
    by
        ``"count"``: the mean of `predict` over all cells of the entity and the given ones. Where
        zeros are missing that is how many, given that there are any; where they are observed,
        zeros count. ``"probability"``: the mean of `probability`. ``"factors"``: the dot product of
        factors alone, as the paper's top ten words of an author, without what combinations of
        labels, a gate or a count head add: it may contradict what is predicted.
    draws, random_state
        The number of posterior draws for the standard deviation, and their seed.

    Returns
    -------
    pandas.DataFrame
        label, mean and sd, largest mean first: sd is the posterior standard deviation that comes
        from the factors. It is 0 without a posterior (``attrs["posterior"]`` tells) and where what
        is predicted does not follow the factors, such as stars by a count head. ``attrs["by"]``
        is what was ranked by. Where the cells are more than 262,144 their means are estimated from
        so many, drawn in proportion to the factors' rates; ``attrs["error"]`` is the largest
        standard error of that, as a share of the mean, and 0 where all cells were predicted.

    Examples
    --------
    >>> import tallyfold as tf
    >>> tensor = tf.simulate((30, 40, 10), 3, density=0.2).tensor
    >>> model = tf.BPTF(n_components=3, max_iter=20).fit(tensor)
    >>> tf.top(model, "axis_1", {"axis_0": "axis_0-03"}, top=5).shape
    (5, 3)
    """
    import pandas as pd

    check_parameters(
        {"top": top, "by": by, "draws": draws, "random_state": random_state},
        {
            "top": integer(1),
            "by": one_of("count", "probability", "factors"),
            "draws": integer(2),
            "random_state": RANDOM_STATE,
        },
    )
    factors = checked_model(model).posterior_
    own = factors.axis_number(axis)
    given = {} if given is None else given
    if not isinstance(given, Mapping):
        raise ParameterError(
            f"`given` must be labels by axis, such as {{'author': '...'}}; got {given!r}."
        )
    if axis in given:
        raise ParameterError(
            f"`given` must name axes other than the one ranked, {axis!r}. What is like one of its "
            f"own labels has a similar row in model.vectors({axis!r})."
        )
    rows = {factors.axis_number(name): _position(model, name, given[name]) for name in given}
    others_K, seed = _others(factors, [axis, *given]), fixed_seed(random_state)
    mean_D, sd_D = _averaged_rates(factors, own, rows, others_K, draws, seed)
    if by == "factors":
        row_C = np.argsort(-mean_D, kind="stable")[:top]
        mean_C, sd_C, error = mean_D[row_C], sd_D[row_C], 0.0
    else:
        beside = AxisBeside(model, own, rows, PREDICTIONS[by])
        row_C, mean_C, error_C = beside.strongest(top, np.random.default_rng(seed))
        spread_C = sd_D[row_C] / np.maximum(mean_D[row_C], 1e-300)
        sd_C = mean_C * spread_C * beside.elasticities(row_C, np.random.default_rng(seed))
        error = float(np.max(error_C / np.maximum(mean_C, 1e-300)))
    uncertain = _is_uncertain(factors)
    labels = factors.labels[own].take(row_C).to_pandas()
    frame = pd.DataFrame({"label": labels, "mean": mean_C, "sd": sd_C * uncertain})
    frame.attrs |= {"posterior": uncertain, "by": by, "error": error}
    return frame


def _averaged_rates(
    factors: Factors,
    own: int,
    rows: Mapping[int, int],
    others_K: Floats,
    draws: int,
    seed: int,
) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of each entity's dot product with the given ones.

    The mean is exact where factors are independent: a ranking must not depend on a seed.
    """
    rate_SD = []
    for drawn in factors.draws(draws, np.random.default_rng(seed)):
        weight_K = np.prod([others_K, *(drawn[other][row] for other, row in rows.items())], axis=0)
        rate_SD.append(drawn[own][:-1] @ weight_K)
    sd_D = np.std(rate_SD, axis=0, ddof=1)
    if isinstance(factors, SampledFactors):
        return np.mean(rate_SD, axis=0), sd_D
    names = factors.names
    means = [factors.mean(names[other])[row] for other, row in rows.items()]
    return factors.mean(names[own]) @ np.prod([others_K, *means], axis=0), sd_D


def _position(model: CountModel, axis: str, label: Any) -> int:
    own = model.axes_[model.posterior_.axis_number(axis)]
    return int(own.positions([label])[0])


def _others(factors: Factors, names: Sequence[str]) -> Floats:
    """Return the product over all other axes of the mean over their entities' mean factors."""
    means = [factors.mean(name).mean(axis=0) for name in factors.names if name not in names]
    return np.asarray(np.prod([np.ones(factors.n_components), *means], axis=0))


def _is_uncertain(factors: Factors) -> bool:
    """Tell whether there is a posterior, and not only points."""
    return any(np.any(factors.sd(name) > 0) for name in factors.names)
