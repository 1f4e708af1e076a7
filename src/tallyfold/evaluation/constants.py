"""What saying the same for every cell scores: the lines that a model has to beat."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError
from tallyfold.kernels.arrays import Floats, Ints
from tallyfold.probability.counts import COUNTS, CountLikelihood
from tallyfold.probability.fit_constant import fit_constant

DISTRIBUTIONS = {
    "Poisson": COUNTS["poisson", False],
    "Poisson given y ≥ 1": COUNTS["poisson", True],
    "negative binomial given y ≥ 1": COUNTS["negative-binomial", True],
}
"""The distributions that are fitted, by the name of their line."""


@dataclass(frozen=True)
class ConstantScore:
    """One constant and its score on the test part.

    Parameters
    ----------
    name
        What is said for every cell.
    parameters
        What the training part made of it: the value, or the rate and the dispersion r.
    mae
        The mean absolute error, where a value is said.
    log_pmf
        The mean log probability of a test count, nothing left out, where a distribution is said.
    """

    name: str
    parameters: dict[str, float] = field(default_factory=dict)
    mae: float | None = None
    log_pmf: float | None = None


def constant_scores(train: CountTensor, test: CountTensor) -> list[ConstantScore]:
    """Fit constants to the counts of one part and score them on the counts of the other.

    Parameters
    ----------
    train, test
        The two parts of a split. Only their non-zero cells are looked at.

    Returns
    -------
    list of ConstantScore
        The training mean, median and mode with their mean absolute errors; then a Poisson, and
        given that counts are at least one a Poisson and a negative binomial, each fitted by
        maximum likelihood, with the mean log probability they give to a test count.

    Examples
    --------
    >>> part = CountTensor.from_array(np.array([[1, 1, 4], [0, 1, 1]]))
    >>> for score in constant_scores(part, part)[:3]:
    ...     print(score.name, score.parameters, round(score.mae, 2))
    training mean {'value': 1.6} 0.96
    training median {'value': 1.0} 0.6
    training mode {'value': 1.0} 0.6
    """
    if not train.nnz or not test.nnz:
        raise DataError(
            f"scores need counts in both parts; got {train.nnz:,} cells to train on and "
            f"{test.nnz:,} to test on. Choose another test_size."
        )
    values_V, times_V = np.unique(train.counts, return_counts=True)
    points = {
        "training mean": float(train.counts.mean()),
        "training median": float(np.median(train.counts)),
        "training mode": float(values_V[times_V.argmax()]),
    }
    scores = [
        ConstantScore(name, {"value": value}, mae=float(np.abs(test.counts - value).mean()))
        for name, value in points.items()
    ]
    for name, likelihood in DISTRIBUTIONS.items():
        scores.append(_fitted(name, likelihood, values_V, times_V, test))
    return scores


def _fitted(
    name: str,
    likelihood: CountLikelihood,
    values_V: Ints,
    times_V: npt.NDArray[np.intp],
    test: CountTensor,
) -> ConstantScore:
    """Fit one distribution to the training histogram and score it on the test counts."""
    fit = fit_constant(likelihood, values_V, times_V)
    parameters = {"rate": fit.rate} if fit.r is None else {"rate": fit.rate, "r": fit.r}
    log_pmf_N: Floats = likelihood.log_pmf(test.counts, fit.rate, fit.r)
    return ConstantScore(name, parameters, log_pmf=float(log_pmf_N.mean()))
