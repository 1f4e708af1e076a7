"""Count distributions given a rate: Poisson and negative binomial, plain and zero-truncated."""

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tallyfold.errors import CountError, ParameterError
from tallyfold.kernels.arrays import Floats, Ints, Mask
from tallyfold.probability import negative_binomial, poisson

FAMILIES = {"poisson": poisson, "negative-binomial": negative_binomial}
"""Modules with the same functions of arrays of y, rate and dispersion r."""

TINY_RATE = 1e-300
"""Rates below it, zero included, are taken as it: a truncated count then is surely one."""

WALK = 32
"""Counts whose probabilities are added up one by one before a quantile is found by bisection."""

LARGEST = 2**53


@dataclass(frozen=True)
class CountLikelihood:
    """The distribution of a cell's count given its rate.

    All methods broadcast over arrays and work in float64. `rate` is the mean before truncation,
    `r` the negative binomial's dispersion; rates from 1e-12 to 1e8 keep nearly all digits.

    Parameters
    ----------
    family
        ``"poisson"`` or ``"negative-binomial"``.
    truncated
        Whether the count is known to be at least one.

    Examples
    --------
    >>> COUNTS["poisson", True].mean([1e-9, 1.0]).round(3)
    array([1.   , 1.582])
    >>> COUNTS["negative-binomial", False].quantile(0.9, rate=[1.0, 10.0], r=0.5)
    array([ 3, 27])
    """

    family: str
    truncated: bool

    def __post_init__(self) -> None:
        if self.family not in FAMILIES:
            raise ParameterError(f"`family` must be one of {[*FAMILIES]}; got {self.family!r}.")

    @property
    def name(self) -> str:
        """The word that kernels know this likelihood by."""
        return f"truncated-{self.family}" if self.truncated else self.family

    @property
    def dispersed(self) -> bool:
        """Whether there is a dispersion `r`."""
        return self.family == "negative-binomial"

    @property
    def lowest(self) -> int:
        """The smallest count that can be."""
        return int(self.truncated)

    def log_pmf(self, y: ArrayLike, rate: ArrayLike, r: ArrayLike | None = None) -> Floats:
        """Return the log probability of a count, every constant in it; -inf off the support."""
        y_, rate_, r_ = self._arrays(y, rate, r)
        off = (y_ < self.lowest) | (y_ != np.floor(y_)) | ~np.isfinite(y_)
        log_pmf = self._family.log_pmf(np.where(off, 1.0, y_), rate_, r_)
        if self.truncated:
            log_pmf = log_pmf - np.log(self._seen(rate_, r_))
        return np.asarray(np.where(off, -np.inf, log_pmf))

    def cdf(self, y: ArrayLike, rate: ArrayLike, r: ArrayLike | None = None) -> Floats:
        """Return the probability of a count of at most y."""
        y_, rate_, r_ = self._arrays(y, rate, r)
        whole = np.maximum(np.floor(y_), self.lowest)
        below = self._family.cdf(whole, rate_, r_)
        if self.truncated:
            log_zero = self._family.log_zero(rate_, r_)
            above = self._family.sf(whole, rate_, r_)
            seen = -np.expm1(log_zero)  # 1 - above / seen is the exact form for small rates
            below = np.where(log_zero < -1.0, (below - np.exp(log_zero)) / seen, 1.0 - above / seen)
        return np.asarray(np.where(y_ < self.lowest, 0.0, np.clip(below, 0.0, 1.0)))

    def sf(self, y: ArrayLike, rate: ArrayLike, r: ArrayLike | None = None) -> Floats:
        """Return the probability of a count above y."""
        y_, rate_, r_ = self._arrays(y, rate, r)
        whole = np.maximum(np.floor(y_), self.lowest)
        above = self._family.sf(whole, rate_, r_) / self._seen(rate_, r_)
        return np.asarray(np.where(y_ < self.lowest, 1.0, np.minimum(above, 1.0)))

    def mean(self, rate: ArrayLike, r: ArrayLike | None = None) -> Floats:
        """Return the mean: rate / (1 - P0) when truncated."""
        _, rate_, r_ = self._arrays(0, rate, r)
        return np.asarray(rate_ / self._seen(rate_, r_))

    def step(self, y: int, rate: ArrayLike, r: ArrayLike | None = None) -> Floats:
        """Return pmf(y + 1) / pmf(y), for a y on the support."""
        _, rate_, r_ = self._arrays(0, rate, r)
        return np.asarray(self._family.step(y, rate_, r_))

    def quantile(self, p: ArrayLike, rate: ArrayLike, r: ArrayLike | None = None) -> Ints:
        """Return the smallest count with a cdf of at least p, for 0 <= p < 1."""
        p_, rate_, r_ = np.broadcast_arrays(*self._arrays(p, rate, r))
        if not np.all((p_ >= 0) & (p_ < 1)):
            raise ParameterError("`p` must be in 0 <= p < 1.")
        counts = mixture_quantile(self, p_.ravel(), rate_.reshape(1, -1), r_.reshape(1, -1))
        return counts.reshape(p_.shape)

    def median(self, rate: ArrayLike, r: ArrayLike | None = None) -> Ints:
        """Return the smallest count that at least half of the mass does not exceed."""
        return self.quantile(0.5, rate, r)

    def sample(self, rng: np.random.Generator, rate: ArrayLike, r: ArrayLike | None = None) -> Ints:
        """Draw one count per rate."""
        _, rate_, r_ = self._arrays(0, rate, r)
        rate_, r_ = np.broadcast_arrays(rate_, r_)
        draw = self._family.sample_positive if self.truncated else self._family.sample
        try:
            return np.asarray(draw(rng, rate_, r_))
        except ValueError as error:  # numpy's, of a rate whose counts pass 64 bits
            raise CountError(
                f"counts can be drawn for rates below about 9e18; got one of {rate_.max():.3g}. "
                "Draw for other cells, or look at the mean and the interval instead."
            ) from error

    @property
    def _family(self) -> ModuleType:
        return FAMILIES[self.family]

    def _seen(self, rate: Floats, r: Floats) -> Floats:
        """Return 1 - P0, or ones without truncation."""
        if not self.truncated:
            return np.ones_like(rate)
        return np.asarray(-np.expm1(self._family.log_zero(rate, r)))

    def _arrays(
        self, y: ArrayLike, rate: ArrayLike, r: ArrayLike | None
    ) -> tuple[Floats, Floats, Floats]:
        """Return float64 arrays; r is one where the family has none."""
        if self.dispersed and r is None:
            raise ParameterError("`r` must be given for a negative binomial; got None.")
        r_ = np.asarray(r if self.dispersed else 1.0, dtype=np.float64)
        rate_ = np.maximum(np.asarray(rate, dtype=np.float64), TINY_RATE)
        return np.asarray(y, dtype=np.float64), rate_, r_


COUNTS = {
    (family, truncated): CountLikelihood(family, truncated)
    for family in FAMILIES
    for truncated in (False, True)
}
"""Every likelihood by (family, truncated)."""


def mixture_quantile(counts: CountLikelihood, p_N: Floats, rate_SN: Floats, r_SN: Floats) -> Ints:
    """Return, per cell, the smallest count with a cdf of at least p, averaged over S draws.

    Walk up the small counts, then bisect.
    """
    answer_N, open_N = _walk(counts, p_N, rate_SN, r_SN)
    rate_SO, r_SO, p_O = rate_SN[:, open_N], r_SN[:, open_N], p_N[open_N]

    def reached(y: Floats, cells: NDArray[np.intp]) -> Mask:
        cdf_S = counts.cdf(y, rate_SO[:, cells], r_SO[:, cells])
        return np.asarray(cdf_S.mean(axis=0) >= p_O[cells])

    guess_O = counts.mean(rate_SO, r_SO).mean(axis=0)
    answer_N[open_N] = _smallest_count(reached, counts.lowest, guess_O)
    return answer_N


def _walk(
    counts: CountLikelihood, p_N: Floats, rate_SN: Floats, r_SN: Floats
) -> tuple[Ints, NDArray[np.intp]]:
    """Add up the pmf from below; return the answers found and the cells that want more steps."""
    answer_N = np.zeros(len(p_N), dtype=np.int64)
    open_N = np.arange(len(p_N))
    pmf_SO = np.exp(counts.log_pmf(counts.lowest, rate_SN, r_SN))
    mass_O = pmf_SO.mean(axis=0)
    for y in range(counts.lowest, counts.lowest + WALK):
        wanting = mass_O < p_N[open_N]
        answer_N[open_N[~wanting]] = y
        if not wanting.all():
            open_N, mass_O, pmf_SO = open_N[wanting], mass_O[wanting], pmf_SO[:, wanting]
            rate_SN, r_SN = rate_SN[:, wanting], r_SN[:, wanting]
        if len(open_N) == 0:
            break
        pmf_SO = pmf_SO * counts.step(y, rate_SN, r_SN)
        mass_O = mass_O + pmf_SO.mean(axis=0)
    return answer_N, open_N


def _smallest_count(
    reached: Callable[[Floats, NDArray[np.intp]], Mask], low: int, guess_N: Floats
) -> Ints:
    """Return, per cell, the smallest whole y >= `low` with ``reached(y, cells)``.

    `reached` must be monotone in y; it is asked about the undecided cells only. First double
    from the guess until it holds, then halve.
    """
    low_N = np.full(len(guess_N), low - 1.0)  # not reached there
    high_N = np.clip(np.ceil(guess_N), low, LARGEST)
    open_N = np.arange(len(guess_N))
    while len(open_N):
        open_N = open_N[~reached(high_N[open_N], open_N) & (high_N[open_N] < LARGEST)]
        low_N[open_N] = high_N[open_N]
        high_N[open_N] = np.minimum(2 * high_N[open_N] + 1, LARGEST)
    open_N = np.flatnonzero(high_N - low_N > 1)
    while len(open_N):
        middle = np.floor((low_N[open_N] + high_N[open_N]) / 2)
        holds = reached(middle, open_N)
        high_N[open_N[holds]] = middle[holds]
        low_N[open_N[~holds]] = middle[~holds]
        open_N = open_N[high_N[open_N] - low_N[open_N] > 1]
    return high_N.astype(np.int64)
