"""``tallyfold demo``: the library at work on a tensor that needs no download."""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tallyfold.cli.describe import facts_of, show
from tallyfold.cli.options import option
from tallyfold.cli.terminal import console, say, show_frame
from tallyfold.errors import printable

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from tallyfold.data.tensor import CountTensor
    from tallyfold.models.base import CountModel
    from tallyfold.models.vae_bptf import VAEBPTF

COLUMNS = {
    "log-score": "log score",
    "occurrence": "whether",
    "amount": "how many",
    "auc-within": "AUC within",
}

READING = (
    "How to read it: a fifth of all cells, empty ones too, was hidden. The log score is the log "
    "probability of what was found in them, per count, higher is better: whether there is a count, "
    "plus how many. AUC within is how often a hidden count is ranked above an empty cell of the "
    "same module and place, another word. The constant, a histogram, knows nothing of module, word "
    "or place; main effects know how busy each is; margins know how large counts are, not where "
    "they are; BPTF is the factorization of the literature, calibrated like the others."
)


def demo(
    report: Annotated[Path, option("FILE", "Where to write the explorer page.")] = Path(
        "tallyfold-demo.html"
    ),
) -> None:
    """Fit models to the demo tensor, show what they found, and write a page to explore it.

    The tensor counts the words of the Python standard library that runs this:
    module x word x place (identifier, docstring or comment). A fifth of all
    cells, empty ones too, is hidden to score the models.

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
    parts = split(tensor, test_size=0.2, cells="all", random_state=0)
    flagship = VAEBPTF(n_components=10, zeros="observed")
    models = {
        **floors("observed"),
        "BPTF, 10 components": BPTF(n_components=10, zeros="observed"),
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
    _show_absent(flagship, parts.test, out)
    out.print("\nWriting a page to explore it with ...")
    title = "The words of the Python standard library"
    page = write_report(flagship, report, test=parts.test, train=parts.train, title=title)
    say(f"Open this in a browser: {page.resolve()}")
    out.print("\nYour own data: tallyfold fit events.csv --axes user,item,day --out model")


def _show_scores(scores: "pd.DataFrame", cells: int) -> None:
    shown = scores[["model", "seconds", *COLUMNS]].rename(columns=COLUMNS)
    formats = {"seconds": ".1f"} | dict.fromkeys(COLUMNS.values(), ".4f")
    title = f"Scores on a hidden fifth of all cells, {cells:,} of which have a count"
    show_frame(title, shown, formats)


def whole_labels(labels: Iterable[str], width: int) -> str:
    """List as many labels as stand in a line, whole, and the first in any case.

    Examples
    --------
    >>> whole_labels(["server", "host", "response"], 15)
    'server, host'
    """
    line, *others = labels
    for label in others:
        if len(line) + len(label) + 2 > width:
            break
        line += f", {label}"
    return line


def _show_components(model: "CountModel", out: "Console") -> None:
    """Print the strongest words and modules of all components."""
    tops = {axis: model.components(axis, top=top) for axis, top in (("word", 9), ("module", 4))}
    out.print("What goes together: the components of VAE-BPTF, largest first", style="bold")
    for component in tops["word"]["component"].unique():
        parts = {axis: top[top["component"] == component] for axis, top in tops.items()}
        share = f"{100 * parts['word']['share'].iloc[0]:.0f} %"
        for axis, part in parts.items():
            head = f"{share if axis == 'word' else 'in':>6}  "
            labels = whole_labels(map(printable, part["label"]), out.width - len(head))
            style = "" if axis == "word" else "dim"
            out.print(head + labels, markup=False, no_wrap=True, style=style)


def _show_absent(model: "VAEBPTF", test: "CountTensor", out: "Console", top: int = 6) -> None:
    """Print the words that a module should have, and has not, among the hidden cells."""
    from tallyfold.evaluation.surprise import surprise

    found = surprise(model, test, tail="lower", absent=50)
    out.print("\nExpected in the hidden cells, and not there (with what probability)", style="bold")
    for row in found[found["count"] == 0].head(top).to_dict("records"):
        word, place, module = (printable(row[name]) for name in ("word", "place", "module"))
        line = f"  {f'{word}, {place} in {module}':<52} {100 * row['probability']:3.0f} %"
        out.print(line, markup=False, overflow="ellipsis", no_wrap=True)
