"""``tallyfold demo``: the library at work on a tensor that needs no download."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tallyfold.cli.describe import facts_of, show
from tallyfold.cli.options import option
from tallyfold.cli.terminal import console, printable, say, show_frame

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from tallyfold.models.base import CountModel
    from tallyfold.models.vae_bptf import VAEBPTF

COLUMNS = {"mae-mean": "MAE, mean", "mae-median": "MAE, median", "log-pmf-positive": "log pmf"}

READING = (
    "How to read it: MAE is the mean absolute error of the predicted mean or median, lower is "
    "better; log pmf is the mean log probability of a held-out count given that it is at least "
    "one, higher is better. The constant, a histogram, knows nothing of module, word or place; "
    "main effects know how busy each is; margins know what each of them, and each pair, tells of "
    "counts, but find no components. VAE-BPTF predicts counts as margins do, and finds components."
)


def demo(
    report: Annotated[Path, option("FILE", "Where to write the explorer page.")] = Path(
        "tallyfold-demo.html"
    ),
) -> None:
    """Fit models to the demo tensor, show what they found, and write a page to explore it.

    The tensor counts the words of the Python standard library that runs this:
    module x word x place (identifier, docstring or comment). A fifth of its
    cells is held out to score the models.

    \b
    [bold]Examples[/]
      tallyfold demo
      tallyfold demo --report words.html
    """  # noqa: D301
    from tallyfold.data.demo import load_demo
    from tallyfold.data.split import split
    from tallyfold.evaluation.compare import compare, floors
    from tallyfold.models.bptf import BPTF
    from tallyfold.models.vae_bptf import VAEBPTF
    from tallyfold.report.explorer.page import checked_target, write_report

    checked_target(report)  # before the minute of fitting, not after it
    out = console()
    out.print("Counting the words of the Python standard library (a few seconds) ...\n")
    tensor = load_demo()
    show(facts_of(tensor), out)
    out.print()
    parts = split(tensor, test_size=0.2, random_state=0)
    flagship = VAEBPTF(n_components=10)
    models = {
        **floors(),
        "BPTF, 10 components": BPTF(n_components=10),
        "VAE-BPTF, 10 components": flagship,
    }
    out.print("The first fit on a machine compiles its kernels, which takes some seconds.")
    logging.getLogger("tallyfold").addHandler(logging.NullHandler())  # it would say so again
    scores = compare(
        models,
        parts.train,
        parts.test,
        list(COLUMNS),
        announce=lambda name: out.print(f"Fitting {name} ..."),
    )
    out.print()
    _show_scores(scores, parts.test.nnz)
    out.print(f"\n{READING}\n")
    _show_components(flagship, out)
    _show_interactions(flagship, out)
    out.print("\nWriting a page to explore it with ...")
    title = "The words of the Python standard library"
    page = write_report(flagship, report, test=parts.test, train=parts.train, title=title)
    say(f"Open this in a browser: {page.resolve()}")
    out.print("\nYour own data: tallyfold fit events.csv --axes user,item,day --out model")


def _show_scores(scores: "pd.DataFrame", cells: int) -> None:
    shown = scores[["model", "seconds", *COLUMNS]].rename(columns=COLUMNS)
    formats = {"seconds": ".1f"} | dict.fromkeys(COLUMNS.values(), ".4f")
    show_frame(f"Scores on {cells:,} held-out cells, zeros missing", shown, formats)


def _show_components(model: "CountModel", out: "Console", most: int = 3) -> None:
    """Print the strongest words and modules of the largest components."""
    tops = {axis: model.components(axis, top=8) for axis in ("word", "module")}
    out.print(f"The {most} largest components of VAE-BPTF, by what is strongest", style="bold")
    for component in tops["word"]["component"].unique()[:most]:
        for axis, top in tops.items():
            part = top[top["component"] == component]
            if axis == "word":
                out.print(f"\n{100 * part['share'].iloc[0]:.0f} % of the rate")
            labels = ", ".join(printable(label) for label in part["label"])
            out.print(f"  {axis + ':':8}{labels}", markup=False, overflow="ellipsis", no_wrap=True)


def _show_interactions(model: "VAEBPTF", out: "Console", top: int = 6) -> None:
    """Print the words that a module uses more than its and the word's own counts say."""
    if model.fitted_.head is None:
        return
    effects = model.interaction_effects("module", "word", top=top)
    out.print("\nCounted more often than module and word say one by one", style="bold")
    for row in effects.itertuples():
        times = f"{row.low:.2f} to {row.high:.2f} times"
        label = f"{printable(row.word)} in {printable(row.module)}"
        out.print(f"  {label:<44} {times}", markup=False, overflow="ellipsis", no_wrap=True)
