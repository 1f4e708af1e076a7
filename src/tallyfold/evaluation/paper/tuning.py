"""Hyper-parameters chosen as the paper chose them: cross-validated on the training part."""

from __future__ import annotations

from collections.abc import Mapping

from tallyfold.data.tensor import CountTensor
from tallyfold.evaluation.paper.line_up import CONSTANTS, PAPER_FORM
from tallyfold.evaluation.paper.setting import Setting
from tallyfold.evaluation.search.spaces import SPACES, Space
from tallyfold.evaluation.search.tune import tune
from tallyfold.models.base import CountModel

FOLDS = 5


def tuned(
    setting: Setting, study: str, models: Mapping[str, CountModel], train: CountTensor
) -> dict[str, CountModel]:
    """Return models with the parameters that `setting.trials` trials found best.

    The models as given, if the setting asks for no trials. Each has as many trials, from the
    paper's grid where it has one. Constants and main effects have nothing to choose.
    """
    if not setting.trials:
        return dict(models)
    return {
        name: model if name in CONSTANTS else _best(setting, f"{study}, {name}", name, model, train)
        for name, model in models.items()
    }


def _best(
    setting: Setting, study: str, name: str, model: CountModel, train: CountTensor
) -> CountModel:
    setting.announce(f"{study}: {setting.trials} trials of {FOLDS} folds")
    setting.folder.mkdir(parents=True, exist_ok=True)
    found = tune(
        model,
        train,
        _space(name, model),
        FOLDS,
        setting.trials or 1,
        storage=setting.folder / "searches.db",
        study=study,
    )
    if found.interrupted:
        raise KeyboardInterrupt
    return found.model()


def _space(name: str, model: CountModel) -> Space:
    """Return the grid of a model, less what the model itself fixes."""
    space = dict(SPACES["vae-bptf-paper" if name == PAPER_FORM else model.name])
    if name == PAPER_FORM:
        space = {key: space[key] for key in space if key not in ("encoder", "truncated")}
        space["hidden_layers"] = [0, 1]  # two have no fast kernel
    return space
