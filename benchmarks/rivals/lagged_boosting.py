"""The next period by LightGBM on lags: what the network of the dynamic model sees, in trees.

Trees are trained, untuned, on cells of the last training periods, empty ones with weights. How many
is the smoothed past's.
"""

from dataclasses import replace

import numpy as np

from rivals.shared_past import SharedPast
from tallyfold.inference.past.periods import next_cells
from tallyfold.models.time_axis import time_axis
from tallyfold.posterior.past_network import logit, network_inputs
from tallyfold.probability.hurdle import HurdleCounts

ROUNDS = 200
SETTINGS = {
    "objective": "binary",
    "learning_rate": 0.05,
    "num_leaves": 31,
    "min_data_in_leaf": 200,
    "min_sum_hessian_in_leaf": 1e-3,
    "max_delta_step": 5.0,
    "seed": 0,
    "num_threads": 1,
    "verbose": -1,
}


class LaggedBoosting(SharedPast):
    """Whether there is a count, by trees on memories of all combinations."""

    name = "lagged-boosting"

    def fit(self, tensor, y=None, **given):
        import lightgbm as lgb

        super().fit(tensor, y, **given)
        forecaster = self.fitted_.forecaster
        cells = next_cells(tensor, forecaster.history, time_axis(tensor, self.time))
        inputs = self._inputs(cells.asked)
        data = lgb.Dataset(inputs, cells.filled_C * 1.0, weight=cells.weight_C)
        self._trees = lgb.train(SETTINGS, data, ROUNDS)
        return self

    def _inputs(self, asked):
        forecaster = self.fitted_.forecaster
        past_N = logit(forecaster.rates.log_zero(forecaster.history, asked))
        return network_inputs(forecaster.history, asked, past_N)

    def forecast(self, horizon):
        ahead = super().forecast(horizon)
        ahead._trees = self._trees
        return ahead

    def _predictive(self, positions):
        forecaster = self.fitted_.forecaster
        asked = forecaster.history.asked(positions)
        logit_N = self._trees.predict(self._inputs(asked), raw_score=True)
        amount = replace(forecaster, rates=None).distribution_at(asked)
        return HurdleCounts(-np.logaddexp(0.0, logit_N), amount)
