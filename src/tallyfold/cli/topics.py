"""``tallyfold topics``: whether the words of components stand together, apart, and come back."""

from typing import Annotated, Any

from tallyfold.cli import options
from tallyfold.cli.model_cells import Folder, load_model
from tallyfold.cli.model_counts import counts_for
from tallyfold.cli.model_tables import By, Relevance
from tallyfold.cli.options import option
from tallyfold.cli.terminal import print_json, say, show_frame
from tallyfold.errors import printable

FORMATS = {"component": "d"} | dict.fromkeys(("share", "npmi", "distinct", "stability"), ".3f")
SPARE = ("words", "share")
"""Columns that a narrow terminal does without."""


@options.with_reading(*options.READING_FOR_MODEL)
def topics(
    folder: Folder,
    files: options.Files,
    reading: options.Reading,
    axis: Annotated[
        str | None, option("AXIS", "The axis of words; the longest, but for times, if left out.")
    ] = None,
    document: Annotated[
        str | None, option("A,B,...", "Axes that make up a document; all others if left out.")
    ] = None,
    most: Annotated[int, option("N", "How many words of each.", "--top", min=2)] = 10,
    by: By = None,
    relevance: Relevance = None,
    as_json: options.AsJson = False,
) -> None:
    """Judge the words of components: coherence, distinct words, stability.

    FILE has counts in which words stand together, such as those the model was
    fitted on. npmi is from -1 (words of a component are never in the same
    document) by 0 (as by chance) to 1 (always); distinct is the share of a
    component's words that no other one lists, and the last line says how many of
    all words listed are different. Stability is there if tallyfold
    stability MODEL FILE --out MODEL was run before.

    \b
    [bold]Examples[/]
      tallyfold topics model train.npz
      tallyfold topics model train.npz --axis word --document author,year
      tallyfold topics model train.npz --by relevance --json
    """  # noqa: D301
    from tallyfold.evaluation.words.topic_table import topic_table
    from tallyfold.models.scoring import ranked_axis

    model = load_model(folder)
    tensor = counts_for(model, files, reading)
    name = axis or ranked_axis(model.axes_)
    axes = [each.strip() for each in document.split(",")] if document else None
    ranked: dict[str, Any] = {"by": by, "relevance": relevance}
    found = topic_table(model, name, tensor, document=axes, top=most, **ranked)
    if as_json:
        print_json(
            {
                "axis": name, "npmi": found.npmi, "different": found.different,
                "stability": found.stability, "components": found.table,
            }
        )  # fmt: skip
        return
    table = found.table.assign(words=[" ".join(map(str, words)) for words in found.table["words"]])
    show_frame(f"Components by their {printable(name)} labels", table, FORMATS, SPARE)
    say(found.title)
    if found.stability is None:
        say("Stability is not known yet: tallyfold stability MODEL FILE --out MODEL --overwrite.")
