"""Who runs which trial: places in a search, claimed so that no two processes do the same.

A search of n trials has n places. To claim one, a process adds a trial that carries the place, the
point to try and its own name. Storages number trials one by one, and a trial appears with all it
carries or not at all. So whoever looks after adding its own sees all that came before: the claim
with the smallest number stands, a later one for the same place or point is void. A claim whose
process has died is void too, and its place is free again.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tallyfold.evaluation.search import workers
from tallyfold.evaluation.search.spaces import CheckedSpace, Dimension
from tallyfold.evaluation.search.storage import patiently

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

Point = dict[str, Any]
ASKED_AGAIN = 10
"""How often a sampler is asked for a point that was not tried yet, before one is drawn."""
LARGEST_LISTED = 100_000
"""Larger spaces are not listed: a point drawn at random is hardly ever one that was tried."""


@dataclass(frozen=True)
class Claims:
    """The places of a search, in a study that several processes may share."""

    study: Study
    space: CheckedSpace
    total: int
    seed: int

    def standing(self) -> list[FrozenTrial]:
        """Return the trials that hold a place, in the order of the places."""
        trials = patiently(lambda: self.study.get_trials(deepcopy=False))
        held = [t for t in trials if "place" in t.user_attrs and "void" not in t.user_attrs]
        return sorted(held, key=lambda trial: (trial.user_attrs["place"], trial.number))

    def claim(self) -> Trial | None:
        """Claim a place and choose its point; None if every place is held."""
        self._free_places_of_the_dead()
        while True:
            held = self.standing()
            taken = {trial.user_attrs["place"] for trial in held}
            free = next((place for place in range(self.places) if place not in taken), None)
            if free is None:
                return None
            trial = self._add(free, self._point(free, held))
            try:
                stands = self._stands(trial)
            except BaseException:
                self.give_up(trial, "interrupted")
                raise
            if stands:
                return trial
            self.give_up(trial, "another process was first")

    @property
    def places(self) -> int:
        """How many trials there are to be: all points of a grid that has no more."""
        return int(min(self.total, self.space.size))

    def give_up(self, trial: Trial, why: str) -> None:
        """Make a claim void, so that its place is free."""
        from optuna.exceptions import UpdateFinishedTrialError
        from optuna.trial import TrialState

        with suppress(UpdateFinishedTrialError):  # another process has done it
            patiently(lambda: trial.set_user_attr("void", why))
            patiently(lambda: self.study.tell(trial, state=TrialState.FAIL, skip_if_finished=True))
        workers.ends(trial.user_attrs["token"])

    def _free_places_of_the_dead(self) -> None:
        from optuna.trial import Trial, TrialState

        for frozen in self.standing():
            said = frozen.user_attrs
            if frozen.state == TrialState.RUNNING and workers.has_died(
                said["token"], said["process"], said["sign of life"]
            ):
                self.give_up(Trial(self.study, frozen._trial_id), "its process died")

    def _add(self, place: int, point: Point) -> Trial:
        from optuna.trial import Trial, TrialState, create_trial

        token = uuid.uuid4().hex
        said = {
            "place": place,
            "token": token,
            "process": workers.this_process(),
            "sign of life": time.time(),
        }
        workers.starts(token)
        template = create_trial(
            state=TrialState.RUNNING,
            params=point,
            distributions=self._distributions(),
            user_attrs=said,
        )
        try:
            patiently(lambda: self._add_once(template, token))
            return Trial(self.study, self._found(token)._trial_id)  # type: ignore[union-attr]
        except BaseException:
            workers.ends(token)  # if it was added, its place is free again
            raise

    def _add_once(self, template: FrozenTrial, token: str) -> None:
        """Add a trial, unless an attempt that seemed to fail did add it."""
        if self._found(token) is None:
            self.study.add_trial(template)

    def _found(self, token: str) -> FrozenTrial | None:
        trials = self.study.get_trials(deepcopy=False)
        return next((t for t in trials if t.user_attrs.get("token") == token), None)

    def _stands(self, mine: Trial) -> bool:
        for other in self.standing():
            same_place = other.user_attrs["place"] == mine.user_attrs["place"]
            same_point = self.space.size < np.inf and other.params == mine.params
            if other.number < mine.number and (same_place or same_point):
                return False
        return any(other.number == mine.number for other in self.standing())

    # -- which point ------------------------------------------------------------------------------

    def _point(self, place: int, held: list[FrozenTrial]) -> Point:
        """Choose what to try in a place: it depends on the seed, the place and what is known."""
        tried = {_key(trial.params) for trial in held}
        if self.space.size <= self.total:
            return self._untried(tried, np.random.default_rng(self.seed), place)
        rng = np.random.default_rng([self.seed, place])
        for point in self._asked(held, int(rng.integers(2**32))):
            if _key(point) not in tried:
                return point
        return self._untried(tried, rng, 0)

    def _asked(self, held: list[FrozenTrial], seed: int) -> Iterator[Point]:
        """Ask a sampler that knows the finished trials for points, one after the other.

        It works on a copy of the study, so that it starts afresh in each place: a search that was
        interrupted takes the way it would have taken.
        """
        import optuna

        sampler = optuna.samplers.TPESampler(seed=seed)
        copy = optuna.create_study(direction="minimize", sampler=sampler)
        known = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
        copy.add_trials([trial for trial in held if trial.state in known])
        for _ in range(ASKED_AGAIN):
            yield copy.ask(self._distributions()).params

    def _untried(self, tried: set[str], rng: np.random.Generator, place: int) -> Point:
        """Return the first point not tried, in an order that the generator draws."""
        while self.space.size > LARGEST_LISTED:
            if _key(point := self.space.drawn(rng)) not in tried:
                return point
        points = list(self.space.points())
        order = rng.permutation(len(points))
        ahead = [points[number] for number in (*order[place:], *order[:place])]
        return next(point for point in ahead if _key(point) not in tried)

    def _distributions(self) -> dict[str, BaseDistribution]:
        return {each.key: _distribution(each) for each in self.space.dimensions}


def _distribution(dimension: Dimension) -> BaseDistribution:
    from optuna import distributions

    if dimension.range is None:
        return distributions.CategoricalDistribution(list(dimension.codes or ()))
    kind, low, high = dimension.range
    if kind in ("int", "log-int"):
        return distributions.IntDistribution(int(low), int(high), log=kind == "log-int")
    return distributions.FloatDistribution(low, high, log=kind == "log")


def _key(point: Point) -> str:
    return json.dumps(point, sort_keys=True)
