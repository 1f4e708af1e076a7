"""One-tailed tests of paired differences: Student's and Wilcoxon's."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

SIGNIFICANT = 0.05


class OneTailedTest(NamedTuple):
    """One test: its statistic, its one-tailed p, and the number of pairs behind it."""

    statistic: float
    p: float
    n: int


def one_tailed_tests(
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
