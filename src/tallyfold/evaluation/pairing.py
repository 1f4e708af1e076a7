"""Two models side by side, from tidy rows of scores: differences, and what they are worth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from tallyfold.errors import DataError, ParameterError
from tallyfold.evaluation.metrics import METRICS
from tallyfold.kernels.arrays import Floats

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ["dataset", "zeros", "model", "seed", "metric", "value"]

SIGNIFICANT = 0.05


class OneTailedTest(NamedTuple):
    """One test: its statistic, its one-tailed p, and the number of pairs behind it."""

    statistic: float
    p: float
    n: int


class Paired(NamedTuple):
    """One model against another.

    Attributes
    ----------
    differences
        A row per dataset: both means over the seeds they have in common, the mean difference
        (model less other) and its standard error (missing with one seed), the number of those
        seeds, and how many seeds were left out since only one of the two had them.
    wins
        On how many datasets the model is the better one.
    t, wilcoxon
        The paper's one-tailed paired t-test over the datasets, and Wilcoxon's signed-rank test,
        both for the model being better. None where there is nothing to test.
    notes
        What must be known to read the tests.
    """

    differences: pd.DataFrame
    wins: int
    t: OneTailedTest | None
    wilcoxon: OneTailedTest | None
    notes: tuple[str, ...]


def summary(rows: Any) -> pd.DataFrame:
    """Return mean, standard error and number over seeds of every score.

    Parameters
    ----------
    rows
        A frame or a list of dicts with dataset, zeros, model, seed, metric and value, one row for
        each; a column `split` is kept apart too.

    Returns
    -------
    pandas.DataFrame
        Per dataset, zeros, model and metric: mean, standard_error (missing for one seed), n, and
        missing, the number of rows without a value.

    Examples
    --------
    >>> row = {"dataset": "toy", "zeros": "missing", "model": "a", "metric": "rmse"}
    >>> summary([row | {"seed": 0, "value": 1.0}, row | {"seed": 1, "value": 3.0}])
      dataset    zeros model metric  mean  standard_error  n  missing
    0     toy  missing     a   rmse   2.0             1.0  2        0
    """
    frame = _checked(rows)
    keys = [name for name in ("dataset", "split", "zeros", "model", "metric") if name in frame]
    groups = frame.groupby(keys, sort=False, dropna=False)["value"]
    table = groups.agg(mean="mean", standard_error="sem", n="count", missing="size").reset_index()
    table["missing"] -= table["n"]
    return table


def paired(
    rows: Any,
    model: str,
    other: str,
    metric: str,
    *,
    zeros: str | None = None,
    other_zeros: str | None = None,
    better: Literal["larger", "smaller"] | None = None,
) -> Paired:
    """Compare two models on the datasets and seeds they have in common.

    Parameters
    ----------
    rows
        As in `summary`.
    model, other
        Names of the models.
    metric
        The score. Of those with a target, such as coverage, the distance to it is compared.
    zeros, other_zeros
        The treatment of zeros whose rows are compared; may be left out where a model has but one.
    better
        What is better, for scores that are not in `METRICS`.

    Examples
    --------
    >>> rows = [
    ...     {"dataset": d, "zeros": "missing", "model": m, "seed": 0, "metric": "rmse", "value": v}
    ...     for d, gain in zip("abcde", (0.5, 0.2, 0.1, 0.4, 0.3))
    ...     for m, v in (("new", 2 - gain), ("old", 2.0))
    ... ]
    >>> found = paired(rows, "new", "old", "rmse")
    >>> found.wins, round(found.t.p, 4), found.wilcoxon.p
    (5, 0.0066, 0.03125)
    """
    frame = _checked(rows)
    sign = _sign(metric, better)
    ours = _values(frame, model, metric, zeros)
    theirs = _values(frame, other, metric, other_zeros or zeros)
    differences = _differences(ours, theirs, METRICS[metric].target if metric in METRICS else None)
    if differences.empty:
        raise DataError(
            f"{model!r} and {other!r} have no dataset and seed in common with a {metric!r} of both."
        )
    gain_N = sign * differences["difference"].to_numpy(float)
    t, wilcoxon, notes = _one_tailed_tests(gain_N)
    alone = len(ours.index.symmetric_difference(theirs.index))
    if alone:
        notes.append(f"{alone} values of a dataset and seed that only one has were left out.")
    return Paired(differences, int((gain_N > 0).sum()), t, wilcoxon, tuple(notes))


def _checked(rows: Any) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame(rows)
    lacking = [name for name in COLUMNS if name not in frame]
    if lacking:
        raise DataError(
            f"rows must have the columns {', '.join(COLUMNS)}; {', '.join(lacking)} not found."
        )
    try:
        frame = frame.assign(value=pd.to_numeric(frame["value"]).astype(float))
    except (ValueError, TypeError) as error:
        raise DataError(f"values must be numbers or missing: {error}.") from None
    if frame["value"].isin([float("inf"), -float("inf")]).any():
        raise DataError("values must be finite or missing; got an infinite one.")
    keys = [name for name in ("split", *COLUMNS[:-1]) if name in frame]
    repeated = frame.duplicated(keys)
    if repeated.any():
        first = frame.loc[repeated, keys].iloc[0].to_dict()
        raise DataError(f"{int(repeated.sum()):,} rows are there twice; the first is {first}.")
    return frame


def _sign(metric: str, better: str | None) -> float:
    """Return 1 for a score of which larger is better, and -1 for all others."""
    known = METRICS[metric].better if metric in METRICS else None
    if better not in (None, "larger", "smaller") or (better or known) is None:
        raise ParameterError(
            f"`better` must be 'larger' or 'smaller' for {metric!r}, which is none of "
            f"{', '.join(METRICS)}; got {better!r}."
        )
    return 1.0 if (better or known) == "larger" else -1.0


def _values(frame: pd.DataFrame, model: str, metric: str, zeros: str | None) -> pd.Series[float]:
    """Return the values of one model by dataset and seed."""
    part = frame[(frame["model"] == model) & (frame["metric"] == metric)]
    if zeros is not None:
        part = part[part["zeros"] == zeros]
    if part.empty:
        raise DataError(
            f"there is no row of model {model!r}, metric {metric!r}"
            + (f" and zeros {zeros!r}." if zeros is not None else ".")
        )
    for name in ("zeros", "split"):
        found = part[name].unique().tolist() if name in part else []
        if len(found) > 1:
            raise ParameterError(
                f"rows of {model!r} have more than one {name}: {', '.join(map(str, found))}. "
                f"Choose one, for instance rows[rows[{name!r}] == {found[0]!r}]."
            )
    return part.dropna(subset="value").set_index(["dataset", "seed"])["value"]


def _differences(
    ours: pd.Series[float], theirs: pd.Series[float], target: float | None
) -> pd.DataFrame:
    import pandas as pd

    both = pd.DataFrame({"model": ours, "other": theirs})
    if target is not None:
        both = (both - target).abs()
    both["difference"] = both["model"] - both["other"]
    groups = both.groupby(level="dataset", sort=False)
    table = pd.DataFrame({"left_out": groups.size() - groups["difference"].count()})
    common = both.dropna().groupby(level="dataset", sort=False)
    means = common.mean()
    means["standard_error"] = common["difference"].sem()
    means["n"] = common.size()
    return means.join(table).reset_index()


def _one_tailed_tests(
    gain_N: Floats,
) -> tuple[OneTailedTest | None, OneTailedTest | None, list[str]]:
    """Test whether gains are above zero; return both tests, and what must be known to read them.

    A test is None where it cannot be made.
    """
    from scipy.stats import ttest_1samp

    n, moved = len(gain_N), int(np.count_nonzero(gain_N))
    if n < 2:
        return None, None, ["one dataset: no test can be made."]
    t = wilcoxon = None
    notes = []
    if np.ptp(gain_N) > 1e-12 * np.abs(gain_N).max():
        found = ttest_1samp(gain_N, 0.0, alternative="greater")
        t = OneTailedTest(float(found.statistic), float(found.pvalue), n)
    else:
        notes.append("the difference is the same on all datasets: no t-test can be made.")
    if moved:
        wilcoxon = OneTailedTest(*signed_rank(gain_N), moved)
    if 0.5**moved > SIGNIFICANT:
        notes.append(
            f"with {moved} datasets that differ, Wilcoxon's p cannot be below {0.5**moved:.3g}."
        )
    return t, wilcoxon, notes


def signed_rank(differences: Floats) -> tuple[float, float]:
    """Return the sum of the ranks of positive differences, and the chance of one as large.

    Differences of zero say nothing of the direction and are left out, as Wilcoxon did. Tied sizes
    share their mean rank; the distribution is over all signs of the ranks as they are, so that it
    is exact with ties too.

    Examples
    --------
    >>> signed_rank(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    (15.0, 0.03125)
    """
    from scipy.stats import rankdata

    differences = differences[differences != 0]
    twice = np.rint(2 * rankdata(np.abs(differences))).astype(int)  # halves come with ties
    chance = np.ones(1)
    for rank in twice:
        chance = (np.pad(chance, (0, rank)) + np.pad(chance, (rank, 0))) / 2
    observed = int(twice[differences > 0].sum())
    return observed / 2, float(min(chance[observed:].sum(), 1.0))
