"""``tallyfold convert`` and ``tallyfold split``: from files of counts to files of counts."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tallyfold.cli import options, texts
from tallyfold.cli.files import files_of, refuse_inputs
from tallyfold.cli.options import argument, option
from tallyfold.cli.progress import GO_ON, LOG_SECONDS, interruptible, progress
from tallyfold.cli.terminal import number_of, say, say_aside, say_dropped
from tallyfold.errors import ParameterError, printable

if TYPE_CHECKING:
    from tallyfold.data.split import Split
    from tallyfold.data.store.building import StoreProgress
    from tallyfold.data.tensor import CountTensor

USUAL_SHARE = 0.2
SHARDS = 16
CELLS = (
    "Draw among cells with a count, or hide a share of all, for models of observed zeros. auto "
    "(the default): the former if the values look like ratings, else the latter."
)
SOURCES = "Files to read, a quoted glob, or - for CSV (none with --query); then "


@options.with_reading(*options.READING)
def convert(
    places: Annotated[
        list[str],
        argument("IN... OUT", SOURCES + "the file to write; its ending decides, / is a store."),
    ],
    reading: options.Reading,
    shards: Annotated[
        int | None, option("N", "Write a store, of so many files: 16 if left out.", min=1)
    ] = None,
    memory_limit: Annotated[
        str | None, option("AMOUNT", "What reading may use before it spills to disk: 2GB.")
    ] = None,
    text: texts.Text = None,
    explode: texts.Explode = None,
    min_df: texts.MinDf = None,
    max_words: texts.MaxWords = None,
    stop_words: texts.StopWords = None,
) -> None:
    """Read counts from files, or by a query, and write them in another format.

    The ending of OUT decides the format. Rows of the same cell are added up,
    so an event table becomes a table of counts; --repeated takes one of them.

    With --shards, or a / at the end of OUT, it becomes a store: a folder of Parquet
    files, each a run of the longest axis, which processes read in parts (fit
    --processes). It is written without holding the counts in memory. Run again
    after a Ctrl-C or a kill, the same command goes on.

    \b
    [bold]Examples[/]
      tallyfold convert events.csv.gz counts.parquet --axes user,page,day
      tallyfold convert ratings.csv ratings.npz --axes user,movie --value stars
      tallyfold convert counts.npz counts.tns
      tallyfold convert papers.csv words.npz --text abstract --axes author,year --min-df 5
      tallyfold convert events/*.parquet store/ --axes user,item,day --memory-limit 2GB
      zcat events.csv.gz | tallyfold convert - counts.npz --axes user,page
      tallyfold convert sales.npz --axes customer,product --database shop.db \\
          --query 'SELECT customer, product FROM sales'
    """  # noqa: D301
    from tallyfold.data.formats import write_counts

    counted = texts.Texts(text, explode, min_df, max_words, stop_words)
    counted.check()
    if text is not None and (shards, memory_limit) != (None, None):
        raise ParameterError(
            "--shards and --memory-limit are not for --text: convert its OUT next."
        )
    if shards is not None or places[-1].endswith(("/", os.sep)):
        _convert_to_store(places, reading, shards or SHARDS, memory_limit)
        return
    sources, (target,) = _divided(places, ["OUT"], reading)
    if memory_limit is not None:
        reading.keywords["memory_limit"] = memory_limit
    tensor = reading.counts(sources) if text is None else counted.counts(sources, reading)
    write_counts(tensor, target)
    say_dropped(tensor)
    sizes = " x ".join(f"{size:,}" for size in tensor.shape)
    say(f"wrote {number_of(tensor.nnz, 'cell')} ({sizes}) to {target}")


def _convert_to_store(
    places: list[str], reading: options.Reading, shards: int, memory_limit: str | None
) -> None:
    """Write a store, showing how far it has come."""
    from tallyfold.data.store import write_store
    from tallyfold.data.store.manifest import MANIFEST

    sources, (target,) = _divided(places, ["OUT"], reading, to_store=True)
    folder, start = Path(target), time.monotonic()
    was_finished = (folder / MANIFEST).exists()
    with interruptible(GO_ON), progress() as show, files_of(sources) as paths:
        source = paths if reading.query is None else reading.counts(paths)
        more = reading.keywords if reading.query is None else {}

        def tell(step: "StoreProgress") -> None:
            show(step.done, step.total, step.words, time.monotonic() - start >= LOG_SECONDS)

        one = source[0] if isinstance(source, list) and len(source) == 1 else source
        more = more | {"shards": shards, "memory_limit": memory_limit, "progress": tell}
        store = write_store(one, folder, **more)
    say_dropped(store)
    sizes = " x ".join(f"{axis.name} {axis.size:,}" for axis in store.manifest.axes)
    what = f"{number_of(store.nnz, 'cell')} ({printable(sizes)})"
    files = f"{number_of(len(store.shards), 'shard')} by {printable(store.manifest.sorted_by)}"
    if was_finished:
        say(f"{printable(target)} is finished: {what} in {files}.")
    else:
        say(f"wrote {what} to {printable(target)}, {files}")


@options.with_reading(*options.READING)
def split(
    places: Annotated[
        list[str],
        argument(
            "IN... TRAIN TEST",
            SOURCES + "the files to write: cells to fit on, and held-out cells.",
        ),
    ],
    reading: options.Reading,
    holdout: Annotated[
        float | None, option("SHARE", f"Share to hold out: {USUAL_SHARE} if left out.")
    ] = None,
    by_entity: Annotated[
        str | None, option("AXIS", "Hold out whole labels of this axis, not cells.")
    ] = None,
    after: Annotated[
        str | None, option("AXIS=VALUE", "Hold out what came after a moment, such as a day.")
    ] = None,
    cells: Annotated[str, option("auto|nonzero|all", CELLS)] = "auto",
    copies: options.Copies = None,
    seed: Annotated[int, option("N", "Seed of the draw.", min=0)] = 0,
) -> None:
    """Split counts into a file to fit on and a file to test on.

    Cells are held out at random, empty ones too where they are zeros (--cells),
    or all cells of some labels (--by-entity), or those after a moment (--after).
    The endings of TRAIN and TEST decide their formats; both files say which of
    all cells they hold.

    \b
    [bold]Examples[/]
      tallyfold split counts.parquet train.parquet test.parquet --holdout 0.2
      tallyfold split counts.npz train.npz test.npz --cells nonzero
      tallyfold split counts.npz train.npz test.npz --by-entity author --seed 1
      tallyfold split counts.npz train.npz test.npz --after year=2009
      tallyfold split counts.npz train.npz test.npz --copies word
    """  # noqa: D301
    from tallyfold.data.formats import write_counts

    options.check_share("--holdout", holdout)
    if cells not in ("auto", "nonzero", "all"):
        raise ParameterError(f"--cells must be 'auto', 'nonzero' or 'all'; got {cells!r}.")
    if after is not None and (by_entity is not None or holdout is not None):
        raise ParameterError(
            "--after says what is held out; it excludes --holdout and --by-entity."
        )
    if copies is not None and (by_entity is not None or after is not None):
        raise ParameterError(
            "--copies is for cells held out at random; it excludes --by-entity and --after."
        )
    sources, (train, test) = _divided(places, ["TRAIN", "TEST"], reading)
    if Path(train).resolve() == Path(test).resolve():
        raise ParameterError(f"TRAIN and TEST must be two files; both are {train!r}.")
    tensor = reading.counts(sources)
    share = USUAL_SHARE if holdout is None else holdout
    parts = _parts(tensor, share, by_entity, after, cells, copies, seed)
    say_dropped(tensor)
    for file, part in ((train, parts.train), (test, parts.test)):
        write_counts(part, file)
        say(f"wrote {number_of(part.nnz, 'cell')} to {printable(file)}")


def _divided(
    places: list[str], targets: list[str], reading: options.Reading, *, to_store: bool = False
) -> tuple[list[str], list[str]]:
    """Tell files to read from files to write, which stand last and must be neither read nor odd."""
    from tallyfold.data.formats.files import ending_of

    n_sources = len(places) - len(targets)
    wanted = " ".join([*([] if reading.query else ["IN"]), *targets])
    if n_sources < 0 or (n_sources == 0) != (reading.query is not None):
        raise ParameterError(f"{wanted} must be named; got {' '.join(places)}.")
    sources, written = places[:n_sources], places[n_sources:]
    for target in written:
        if to_store:
            _refuse_inside(target, sources)
            continue
        ending_of(Path(target))
        refuse_inputs(target, sources)
    return sources, written


def _refuse_inside(target: str, sources: list[str]) -> None:
    """Refuse to write a store into a folder that is read: its shards would be read as well."""
    place = Path(target).resolve()
    for source in sources:
        folder = Path(source).resolve()
        if folder.is_dir() and (place == folder or folder in place.parents):
            raise ParameterError(
                f"the store {target!r} would be inside {source!r}, which is read. Write it "
                "elsewhere."
            )


def _parts(
    tensor: "CountTensor",
    holdout: float,
    by_entity: str | None,
    after: str | None,
    cells: str,
    copies: str | None,
    seed: int,
) -> "Split":
    from tallyfold.data import split as ways
    from tallyfold.data.labels import label_from_text

    if after is not None:
        ((name, text),) = (options.pairs("--after", [after]) or {}).items()
        moment = label_from_text(tensor.axis(name), text)
        return ways.split_time(tensor, name, after=moment)
    if by_entity is not None:
        return ways.split_entities(tensor, by_entity, holdout, random_state=seed)
    if cells == "auto":
        cells = _hidden(tensor)
    groups = options.groups_of(tensor, copies)
    return ways.split(tensor, holdout, cells=cells, random_state=seed, groups=groups)  # type: ignore[arg-type]


def _hidden(tensor: "CountTensor") -> str:
    """Return which cells to hide, by what empty ones seem to be, and say so."""
    from tallyfold.models.complete_logs import CHOSEN, zeros_of

    zeros = zeros_of(tensor)
    hidden, other = ("nonzero", "all") if zeros == "missing" else ("all", "nonzero")
    what = "cells with a count" if hidden == "nonzero" else "all cells, empty ones too,"
    say_aside(f"{CHOSEN[zeros]}: a share of {what} is held out; if not so, --cells {other}.")
    return hidden
