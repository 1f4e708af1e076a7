"""The phases that train a count head: networks on margins, then on margins of residuals too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.fit.loop import Outcome, Phase
from tallyfold.inference.fit.stopping import StoppingRules
from tallyfold.inference.head.cells import N_PARTS, HeadCells
from tallyfold.inference.head.recipe import SMALL, Recipe, recipe_for, second_recipe
from tallyfold.inference.head.training import (
    MOST_LOOKED_AT,
    SHOWING,
    Member,
    Unknown,
    advance,
    decorrelation,
    first_member,
    held_out_rows,
    turn,
    widened,
)
from tallyfold.kernels.blas import side_by_side
from tallyfold.kernels.head_network import HeadNetwork, expectations, log_likelihoods
from tallyfold.posterior.count_head import (
    CELLS_AT_ONCE,
    N_RESIDUALS,
    CountHead,
    HeadStage,
    residual_functions,
    residuals,
    with_base,
)
from tallyfold.probability.categorical import CategoricalCounts
from tallyfold.probability.lomax import LomaxTail

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

SURE_OF_HEAD, SURE_OF_RESIDUALS, SURE_OF_RATES = 1.0, 0.5, 1.0
SURE_OF_SMALL_HEAD = 2.0
"""By how many standard errors a stage must be better than what is there without it."""


@dataclass(frozen=True)
class HeadState:
    """A count head in training.

    Attributes
    ----------
    before
        The state that the phases before ended with, such as factors; None if there are none.
    finished
        The parameters of stages that are trained: members x parameters.
    members
        The networks of the present stage.
    score
        The mean log probability of held-out cells' bins.
    """

    before: Any
    finished: tuple[Singles, ...]
    members: tuple[Member, ...]
    score: float = 0.0

    @property
    def params_MP(self) -> Singles:
        """The parameters of the present stage's members."""
        return np.stack([member.params_P for member in self.members])


class HeadStep:
    """Trains the networks of a stage, all members in step; an iteration ends with a look.

    Attributes
    ----------
    cells, recipe
        What is trained on, and how.
    seed
        Of the networks' first weights.
    """

    def __init__(self, cells: HeadCells, seed: int) -> None:
        self.cells, self.seed = cells, seed
        self.recipe: Recipe = recipe_for(len(cells))
        self.first: HeadStep = self

    def start(self, before: Any) -> HeadState:
        """Begin with networks that predict the histogram of all counts."""
        members, z_ND = self._first_members(self.cells.head), self._own_inputs[1]
        for member in members:
            turn(self._network(z_ND), member.params_P, decorrelation(z_ND))
        return HeadState(before, (), members)

    def _first_members(self, head: CountHead, n_further: int = 0) -> tuple[Member, ...]:
        n_inputs = len(head.tables) * (head.n_functions + n_further)
        network = HeadNetwork(n_inputs, self.recipe.n_hidden, head.shapes_QB)
        log_base_B = np.log(head.base_B).astype(np.float32)
        return tuple(
            first_member(network, log_base_B, self.recipe, self.seed + number)
            for number in range(self.recipe.n_members)
        )

    def advance(self, state: HeadState, iteration: int) -> tuple[HeadState, float]:
        """Train up to the next look; the objective is the score."""
        stage, z_ND = self.inputs(state)
        network, turn_DD = self._network(z_ND), decorrelation(z_ND)
        first_step = (iteration - 1) * self.recipe.steps_per_look
        unknown = self._unknown(stage)

        def train(number: int) -> tuple[Member, Floats]:
            held_out = self.held_out_rows(number)
            member = advance(
                state.members[number], network, turn_DD, z_ND, self.cells.drawn_bin_N, held_out,
                self.recipe, first_step, unknown,
            )  # fmt: skip
            looked_at = slice(held_out.start, min(held_out.stop, held_out.start + MOST_LOOKED_AT))
            bin_N = self.cells.drawn_bin_N[looked_at]
            return member, log_likelihoods(network, member.params_P, z_ND[looked_at], bin_N)

        trained = side_by_side(train, range(self.recipe.n_members))
        members = tuple(member for member, _ in trained)
        score = float(np.mean(np.concatenate([scores_N for _, scores_N in trained])))
        return replace(state, members=members, score=score), score

    def validation_score(self, state: HeadState) -> float:
        """Return the score on cells that each member was not trained on."""
        return state.score

    def inputs(self, state: HeadState) -> tuple[HeadStage, Singles]:
        """Return how inputs are standardised, and those of all cells in the drawn order."""
        return self._own_inputs

    @cached_property
    def _own_inputs(self) -> tuple[HeadStage, Singles]:
        return self._standardised(self.cells.inputs_by_table(), self.cells.head.n_functions)

    def _standardised(self, tables: Iterable[Singles], width: int) -> tuple[HeadStage, Singles]:
        """Return how inputs are standardised, and they in the drawn order, table by table."""
        none, stages = np.empty((0, 0), dtype=np.float32), []
        z_ND = np.empty((len(self.cells), len(self.cells.axis_sets) * width), dtype=np.float32)
        for number, x_NF in enumerate(tables):
            some_CF = x_NF[self.cells.order_N[:SHOWING]]
            centre_F = np.asarray(some_CF.mean(axis=0, dtype=np.float64))
            spread_F = np.asarray(some_CF.std(axis=0, dtype=np.float64)) + 1e-6
            stages.append(HeadStage(centre_F, spread_F, none, self.recipe.n_hidden))
            own_NF = z_ND[:, number * width : (number + 1) * width]
            own_NF[:] = stages[-1].standardised(x_NF[self.cells.order_N])
        centre_D = np.concatenate([stage.centre_D for stage in stages])
        spread_D = np.concatenate([stage.spread_D for stage in stages])
        return HeadStage(centre_D, spread_D, none, self.recipe.n_hidden), z_ND

    def _network(self, z_ND: Singles) -> HeadNetwork:
        return HeadNetwork(z_ND.shape[1], self.recipe.n_hidden, self.cells.constant.shapes_QB)

    def _unknown(self, stage: HeadStage) -> Unknown:
        """Return the inputs where the label of an axis, or all labels, are unknown."""
        head, sets = self.cells.head, self.cells.axis_sets
        width, mean_F = len(stage.centre_D) // len(sets), head.statistics.mean_F
        nothing_F = np.zeros(width, dtype=np.float32)  # no cells, mean functions, no residuals
        nothing_F[1 : 1 + len(mean_F)] = mean_F
        n_axes = len(self.cells.shape)
        lost_SM = np.vstack([np.eye(n_axes), np.ones(n_axes)]).astype(bool)
        hidden_ST = np.stack([lost_SM[:, list(axes)].any(axis=1) for axes in sets], axis=1)
        input_SD = stage.standardised(np.tile(nothing_F, (len(lost_SM), len(sets))))
        head.put_average(input_SD, lost_SM)
        return Unknown(np.repeat(hidden_ST, width, axis=1), input_SD)

    def held_out_rows(self, member: int) -> slice:
        """Return the cells that a member is not trained on."""
        return held_out_rows(len(self.cells), self.cells.n_first, member, self.recipe)

    def held_out_scores(self, params_MP: Singles, z_ND: Singles) -> Floats:
        """Return the log probability of every held-out cell, each by the member it is kept from."""
        network = self._network(z_ND)

        def score(number: int) -> Floats:
            rows = self.held_out_rows(number)
            bin_N = self.cells.drawn_bin_N[rows]
            return log_likelihoods(network, params_MP[number], z_ND[rows], bin_N)

        return np.concatenate(side_by_side(score, range(len(params_MP))))

    # -- the result -------------------------------------------------------------------------------

    def head_of(self, state: HeadState) -> CountHead:
        """Return the head that was trained, as far as it helps on held-out cells."""
        params = (*state.finished, state.params_MP)
        stage, z_ND = self._own_inputs
        first = replace(stage, params_MP=params[0])
        score_N = self.held_out_scores(params[0], z_ND)
        untrained = self.recipe.steps == 0  # gains are those of rounding
        sure = SURE_OF_SMALL_HEAD if len(self.cells) < SMALL else SURE_OF_HEAD
        if untrained or not surely_better(score_N, self._base_scores(), sure):
            return replace(self.cells.constant, tables=self.cells.all_tables())
        head = replace(self.cells.constant, stages=(first,), averaged=self.cells.head.averaged)
        prob_FB = first.probabilities(head.shapes_QB, z_ND[self._far_N])
        return replace(self._tailed(head, prob_FB), tables=self.cells.all_tables())

    def probabilities(self, state: HeadState, head: CountHead, rows: Ints) -> Floats:
        """Return the first member's probabilities at cells that it was not trained on.

        From margins of other folds.
        """
        if not head.stages:
            return np.tile(head.base_B, (len(rows), 1))
        z_ND = (self.first._own_inputs if len(head.stages) == 1 else self.inputs(state))[1]
        stage = replace(head.stages[-1], params_MP=head.stages[-1].params_MP[:1])
        prob_NB = stage.probabilities(head.shapes_QB, z_ND[rows])
        return with_base(prob_NB.astype(np.float64), head.base_B)

    def _base_scores(self) -> Floats:
        rows = slice(0, self.held_out_rows(self.recipe.n_members - 1).stop)
        return np.log(self.cells.constant.base_B)[self.cells.drawn_bin_N[rows]]

    @cached_property
    def _far_N(self) -> Ints:
        """The cells whose counts are in the open bin."""
        open_ = self.cells.constant.bins.upper is None
        return np.flatnonzero(
            (self.cells.drawn_bin_N == len(self.cells.constant.base_B) - 1) & open_
        )

    def _tailed(self, head: CountHead, prob_FB: Singles) -> CountHead:
        """Return the head with a tail fitted to counts beyond the last closed bin."""
        if head.bins.upper is not None:
            return head
        prob_F = np.maximum(prob_FB[:, -1].astype(np.float64), 1e-30)
        start, counts_F = int(head.bins.lower_B[-1]), self.cells.drawn_counts_N[self._far_N]
        return replace(head, tail=LomaxTail.fitted(start, counts_F, np.log(prob_F)))


class ResidualStep(HeadStep):
    """Trains the second stage, whose inputs have margins of the first stage's residuals too."""

    def __init__(self, first: HeadStep) -> None:
        super().__init__(first.cells, first.seed)
        self.first = first
        self.recipe = second_recipe(first.recipe)

    def start(self, before: HeadState) -> HeadState:
        """Begin with networks that predict what the first stage's do, until residuals tell more."""
        head, params_MP = self.cells.head, before.params_MP
        n_inputs = len(head.tables) * (head.n_functions + N_RESIDUALS)
        old_D = np.arange(n_inputs).reshape(len(head.tables), -1)[:, : head.n_functions].ravel()
        network = HeadNetwork(n_inputs, self.recipe.n_hidden, head.shapes_QB)
        smaller = HeadNetwork(len(old_D), self.recipe.n_hidden, head.shapes_QB)
        pairs = zip(self._first_members(head, N_RESIDUALS), params_MP, strict=True)
        members = tuple(
            widened(member, network, smaller, params_P, old_D) for member, params_P in pairs
        )
        return HeadState(before.before, (params_MP,), members)

    def inputs(self, state: HeadState) -> tuple[HeadStage, Singles]:
        """Return how inputs are standardised, and those of all cells."""
        return self._made(state)[1:]

    def _made(self, state: HeadState) -> tuple[CountHead, HeadStage, Singles]:
        """Work out residuals and their margins, once."""
        if "_kept" not in self.__dict__:
            self._kept = self._make(state.finished[0])
        return self._kept

    def _make(self, params_MP: Singles) -> tuple[CountHead, HeadStage, Singles]:
        """Sum residuals: those at a cell know nothing of the cell's fold, in any way."""
        cells, head = self.cells, self.cells.head
        stage = replace(self.first._own_inputs[0], params_MP=params_MP)
        network = HeadNetwork(len(stage.centre_D), stage.n_hidden, head.shapes_QB)
        function_B2 = residual_functions(head.bins, head.base_B)
        bin_N, z_ND = head.bins.bin_of(cells.counts_N), self.first._own_inputs[1]
        own_N2 = np.empty((len(cells), N_RESIDUALS), dtype=np.int32)
        value_NK3 = np.ones((len(cells), N_PARTS, 1 + N_RESIDUALS), dtype=np.int32)

        def left(n_members: int, z_CD: Singles, bin_C: Ints) -> Ints:
            expected_C2 = expectations(network, params_MP[:n_members], z_CD, function_B2)
            return residuals(function_B2, bin_C, expected_C2)

        def write(part: int) -> None:
            z_TNF = cells.inputs_besides(part, stage) if part >= 0 else None
            for start in range(0, len(cells), CELLS_AT_ONCE):
                some = slice(start, start + CELLS_AT_ONCE)
                if z_TNF is None:
                    own_C2 = left(len(params_MP), z_ND[some], cells.drawn_bin_N[some])
                    own_N2[cells.order_N[some]] = own_C2
                else:  # one member says nearly what all of them do
                    z_CD = np.concatenate(list(z_TNF[:, some]), axis=1)
                    value_NK3[some, part, 1:] = left(1, z_CD, bin_N[some])

        side_by_side(write, range(-1, N_PARTS))
        head = cells.with_residuals(own_N2)
        tables = cells.residual_inputs(head, value_NK3)
        return (head, *self._beside_first(*self._standardised(tables, N_RESIDUALS)))

    def _beside_first(self, stage: HeadStage, z_ND: Singles) -> tuple[HeadStage, Singles]:
        """Return the first stage's inputs and further ones, table by table."""

        def joined(*parts: npt.NDArray[Any]) -> npt.NDArray[Any]:
            by_table = [part.reshape(*part.shape[:-1], n_tables, -1) for part in parts]
            return np.concatenate(by_table, axis=-1).reshape(*parts[0].shape[:-1], -1)

        n_tables, (first, first_ND) = len(self.cells.axis_sets), self.first._own_inputs
        centre_D = joined(first.centre_D, stage.centre_D)
        spread_D = joined(first.spread_D, stage.spread_D)
        return replace(stage, centre_D=centre_D, spread_D=spread_D), joined(first_ND, z_ND)

    def head_of(self, state: HeadState) -> CountHead:
        """Return the head of both stages; that of the first alone if the second is no better."""
        if state.score == 0.0 or not self._helps(state):  # zero: it is not trained at all
            before = tuple(Member(params_P, params_P, params_P) for params_P in state.finished[0])
            return self.first.head_of(replace(state, finished=(), members=before))
        head, stage, z_ND = self._made(state)
        first = replace(self.first._own_inputs[0], params_MP=state.finished[0])
        second = replace(stage, params_MP=state.params_MP)
        prob_FB = second.probabilities(head.shapes_QB, z_ND[self._far_N])
        return self._tailed(replace(head, stages=(first, second)), prob_FB)

    def _helps(self, state: HeadState) -> bool:
        second_N = self.held_out_scores(state.params_MP, self.inputs(state)[1])
        first_N = self.first.held_out_scores(state.finished[0], self.first._own_inputs[1])
        return surely_better(second_N, first_N, SURE_OF_RESIDUALS)


def head_phases(cells: HeadCells, seed: int) -> list[Phase]:
    """Return the phases that train a head."""
    first = HeadStep(cells, seed)
    steps: dict[str, HeadStep] = {"head": first}
    if first.recipe.residuals and cells.rest is None:
        steps["residuals"] = ResidualStep(first)
    return [
        Phase(
            name, step, step.start, StoppingRules(
                step.recipe.looks, 0.0, step.recipe.patience, scheduled=True
            ), anew=True,
        )
        for name, step in steps.items()
    ]  # fmt: skip


def trained_head(outcome: Outcome, phases: Sequence[Phase]) -> CountHead | None:
    """Return the head that a fit ended with; None if it ended before the head's first look."""
    step = phases[-1].step
    assert isinstance(step, HeadStep)
    names = {phase.name for phase in phases if isinstance(phase.step, HeadStep)}
    return step.head_of(outcome.state) if outcome.history[-1].phase in names else None


def compared(
    head: CountHead,
    outcome: Outcome,
    phases: Sequence[Phase],
    held_out: TrainingCells,
    log_pmf_N: Floats,
) -> tuple[CountHead | None, float]:
    """Return the head and its mean log pmf at cells that the factors never saw.

    None, and the others' mean, if `log_pmf_N` of another distribution are surely better there.
    """
    step = phases[-1].step
    assert isinstance(step, HeadStep)
    row_N = step.cells.rows_of(held_out.indices_NM)
    known_N = row_N >= 0
    rows, others = (held_out.group.all_gather(a[known_N]) for a in (row_N, log_pmf_N))
    order = np.argsort(rows)  # the same in any number of processes
    rows, others = rows[order], others[order]
    prob_NB = step.probabilities(outcome.state, head, rows)
    score_N = CategoricalCounts(head.bins, prob_NB, head.tail).log_pmf(
        step.cells.drawn_counts_N[rows]
    )
    if surely_better(others, score_N, SURE_OF_RATES):
        return None, float(others.mean())
    return head, float(score_N.mean())


def surely_better(score_N: Floats, than_N: Floats, errors: float) -> bool:
    """Return whether scores are better by some standard errors of their difference."""
    gain_N = score_N - than_N
    return bool(gain_N.mean() > errors * gain_N.std() / np.sqrt(len(gain_N)))
