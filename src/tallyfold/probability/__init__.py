"""Pure maths on float64 arrays: Gamma factors, count distributions, mixtures over draws."""

from tallyfold.probability.counts import COUNTS, CountLikelihood
from tallyfold.probability.fit_constant import ConstantFit, fit_constant
from tallyfold.probability.mixture import CountMixture

__all__ = ["COUNTS", "ConstantFit", "CountLikelihood", "CountMixture", "fit_constant"]
