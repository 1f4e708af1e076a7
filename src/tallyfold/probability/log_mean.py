"""The log of a mean of probabilities that are given by their logs."""

import numpy as np

from tallyfold.kernels.arrays import Floats


def log_mean(log_SN: Floats) -> Floats:
    """Return ln of the mean over the first axis.

    The same bits as by `scipy.special.logsumexp`, in a quarter of its time: for mixtures of few
    cells, such as a calibration visits hundreds of times, its checks take longer than the sums.

    Examples
    --------
    >>> np.exp(log_mean(np.log([[0.1, 0.5], [0.3, 0.5]]))).round(6)
    array([0.2, 0.5])
    """
    high_N = log_SN.max(axis=0)
    highest_SN = log_SN == high_N
    with np.errstate(divide="ignore", invalid="ignore"):
        share_SN = np.exp(log_SN - high_N)
        share_SN[highest_SN] = 0.0  # summed apart, as whole numbers
        number_N = highest_SN.sum(axis=0)
        rest_N = share_SN.sum(axis=0) / number_N
        total_N = np.log1p(rest_N) + np.log(number_N) + high_N
    return np.asarray(total_N - np.log(len(log_SN)))
