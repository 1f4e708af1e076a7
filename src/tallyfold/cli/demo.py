"""``tallyfold demo``: the library at work on a tensor that needs no download."""

from typing import TYPE_CHECKING

from tallyfold.cli.describe import facts_of, show
from tallyfold.cli.terminal import console, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from tallyfold.evaluation.constants import ConstantScore


READING = (
    "How to read it: these lines know nothing of module, word or place, so a model earns its keep "
    "where its MAE (mean absolute error) is lower and its log pmf (mean log probability of a "
    "held-out count) higher than theirs; a line 'given y ≥ 1' knows that no cell is empty, so "
    "compare it only with models that know it too."
)


def demo() -> None:
    """Describe the demo tensor and score what a model has to beat on it.

    The tensor counts the words of the Python standard library that runs this:
    module x word x place (identifier, docstring or comment). A fifth of its
    cells is held out.

    \b
    [bold]Example[/]
      tallyfold demo
    """  # noqa: D301
    from tallyfold.data.demo import load_demo
    from tallyfold.data.split import split
    from tallyfold.evaluation.constants import constant_scores

    out = console()
    out.print("Counting the words of the Python standard library (a few seconds) ...\n")
    tensor = load_demo()
    show(facts_of(tensor), out)
    train, test = split(tensor, test_size=0.2, random_state=0)
    out.print()
    out.print(_scores_table(constant_scores(train, test), test.nnz))
    out.print()
    out.print(READING)


def _scores_table(scores: "Sequence[ConstantScore]", cells: int) -> "Table":
    rows = [
        (
            score.name,
            ", ".join(f"{name} {value:.3g}" for name, value in score.parameters.items()),
            "–" if score.mae is None else f"{score.mae:.4f}",
            "–" if score.log_pmf is None else f"{score.log_pmf:.4f}",
        )
        for score in scores
    ]
    title = f"What a model has to beat, on {cells:,} held-out cells"
    return table(title, ["constant", "fitted on the others", "MAE>", "log pmf>"], rows)
