"""The options that ``tune`` and ``rank`` share, and what becomes of them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tallyfold.cli import model_parameters, options
from tallyfold.cli.terminal import printable

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from tallyfold.data.tensor import CountTensor
    from tallyfold.models.base import CountModel

Files = Annotated[
    list[str], typer.Argument(metavar="FILE", help="One file, several, or a quoted glob.")
]
Model = Annotated[str, typer.Option("--model", metavar="NAME", help="Which model, such as bptf.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A parameter that stays fixed. Repeatable."),
]
Folds = Annotated[int, typer.Option(metavar="K", help="Parts of the cross-validation.")]
Metric = Annotated[
    str | None, typer.Option(metavar="NAME", help="Score to choose by, if not the model's own.")
]
TestSize = Annotated[
    float,
    typer.Option(
        "--holdout",
        "--test-size",
        metavar="SHARE",
        help="Share of the cells to set aside first, for a test that comes later.",
    ),
]
Seed = Annotated[int, typer.Option(metavar="N", help="Seed of the test part and of the folds.")]


def training_part(
    files: Sequence[str], reading: options.Reading, test_size: float, seed: int
) -> "CountTensor":
    """Read the counts; set a part aside if asked to."""
    from tallyfold.data.split import split

    options.check_share("--holdout", test_size or None)
    tensor = reading.counts(files)
    return split(tensor, test_size, random_state=seed).train if test_size else tensor


def chosen_model(name: str, fixed: Sequence[str] | None) -> "CountModel":
    """Make a model by name, with the parameters given as ``NAME=VALUE``."""
    return model_parameters.chosen_model(name, None, model_parameters.settings(fixed))


def show_errors(to: "Console", rows: "pd.DataFrame") -> None:
    """Print the first five errors of fits that failed."""
    for error in rows["error"].dropna().unique()[:5]:
        to.print(f"failed: {printable(error)}", markup=False, soft_wrap=True)
