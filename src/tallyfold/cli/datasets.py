"""``tallyfold datasets``: the paper's tensors, and building them from your own download."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyfold.cli import options
from tallyfold.cli.describe import facts_of, show
from tallyfold.cli.files import refuse_unwritable
from tallyfold.cli.terminal import console, show_table
from tallyfold.errors import ParameterError, printable

if TYPE_CHECKING:
    from rich.console import Console

    from tallyfold.data.tensor import CountTensor
    from tallyfold.paper.datasets import Dataset


def _option(metavar: str, words: str) -> Any:
    return typer.Option(metavar=metavar, help=words)


AsJson = Annotated[
    bool, typer.Option("--json", help="Write one JSON object, for a program to read.")
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="One that `tallyfold datasets` lists.")]
FILES = typer.Argument(metavar="FOLDER", help="Folder of your download, files, or a glob.")
OUT = typer.Option("--out", "-o", metavar="FILE", help="File to write; its ending decides.")
STOP_WORDS = _option("WORDS", "'english', 'none', or a file of words to ignore.")
MIN_DF = _option("N", "Keep words of at least N documents, or a share (0.001).")
MAX_WORDS = _option("N", "Keep the N most frequent words; 'all' keeps all.")
YEARS = _option("A-B", "Keep the years A to B; 'all' keeps all.")
UNIT = _option("UNIT", "Unit of time, for ratings: day, week, month, ...")
COLUMNS = _option("A,B,...", "Order of a ratings CSV: user,item,rating,timestamp.")
SOURCE = _option("SOURCE", "Keep papers of a source, such as DBLP.")
SAMPLE = _option("SHARE", "Keep a random share of the papers.")
DENSITY = _option("SHARE", "Share of non-zero cells, for 'simulated'.")
BAD_LINES = _option("WHAT", "What to do with an unusable line: error or skip.")

app = typer.Typer(invoke_without_command=True, rich_markup_mode="rich")


@app.callback()
def datasets(context: typer.Context, as_json: AsJson = False) -> None:
    """List the paper's tensors, and build them from your own download.

    Nothing is downloaded for you: each dataset says where its files come from
    and under which terms.

    \b
    [bold]Examples[/]
      tallyfold datasets
      tallyfold datasets show nips
      tallyfold datasets build nips FOLDER --out nips.parquet
    """  # noqa: D301
    if context.invoked_subcommand is not None:
        return
    from tallyfold.paper.datasets import DATASETS

    if as_json:
        typer.echo(json.dumps({n: _plain(d) for n, d in DATASETS.items()}, indent=2))
        return
    rows = [
        (name, " x ".join(d.axes), f"{d.nonzeros:,}" if d.nonzeros else "-", d.way)
        for name, d in DATASETS.items()
    ]
    out = console()
    show_table(out, "Datasets", ["name", "axes", "non-zeros>", "how to get it"], rows)
    out.print("\nMore of one: tallyfold datasets show NAME", markup=False)


@app.command("show")
def show_one(name: Name, as_json: AsJson = False) -> None:
    """Say what a dataset is, where it comes from, and how to build it.

    \b
    [bold]Example[/]
      tallyfold datasets show video-rating
    """  # noqa: D301
    from tallyfold.paper.datasets import dataset_named

    dataset = dataset_named(name)
    if as_json:
        typer.echo(json.dumps({"name": name, **_plain(dataset)}, indent=2))
    else:
        _show_dataset(name, dataset, console())


@app.command()
def build(
    name: Name,
    files: Annotated[list[str] | None, FILES] = None,
    out: Annotated[str, OUT] = ...,  # type: ignore[assignment]
    stop_words: Annotated[str | None, STOP_WORDS] = None,
    min_df: Annotated[str | None, MIN_DF] = None,
    max_words: Annotated[str | None, MAX_WORDS] = None,
    years: Annotated[str | None, YEARS] = None,
    unit: Annotated[str | None, UNIT] = None,
    columns: Annotated[str | None, COLUMNS] = None,
    source: Annotated[str | None, SOURCE] = None,
    sample: Annotated[float | None, SAMPLE] = None,
    density: Annotated[float | None, DENSITY] = None,
    seed: Annotated[int | None, _option("N", "Seed of random choices.")] = None,
    min_nonzeros: options.MinNonzeros = None,
    top: options.Top = None,
    bad_lines: Annotated[str, BAD_LINES] = "error",
    encoding: Annotated[str, _option("NAME", "Text encoding of the files.")] = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Build a tensor from your own download, and write it to a file.

    What was left out on the way is listed. An option that a dataset does not
    have is refused.

    \b
    [bold]Examples[/]
      tallyfold datasets build nips FOLDER --out nips.parquet
      tallyfold datasets build video-review FILE --out r.npz --min-df 10
      tallyfold datasets build dblp 's2/*.gz' --out dblp.parquet --sample 0.01
      tallyfold datasets build simulated --out simulated.parquet --seed 3
    """  # noqa: D301
    from tallyfold.data.formats import write_counts
    from tallyfold.paper.datasets import build_dataset, dataset_named

    dataset = dataset_named(name)
    _check_target(out)  # before hours of reading, not after
    given: dict[str, Any] = {"stop_words": stop_words, "min_df": min_df, "max_words": max_words}
    given |= {"years": years, "unit": unit, "columns": columns, "source": source}
    given |= {"sample": sample, "density": density, "random_state": seed}
    chosen = {
        option: READ[option](value) if option in READ else value
        for option, value in given.items()
        if value is not None
    }
    tensor = _watched(
        lambda progress: build_dataset(
            name,
            files or None,
            min_nonzeros=options.numbers("--min-nonzeros", min_nonzeros),
            top=options.numbers("--top", top),
            bad_lines=bad_lines,  # type: ignore[arg-type]
            encoding=encoding,
            progress=progress,
            **chosen,
        )
    )
    write_counts(tensor, out)
    facts = {**facts_of(tensor), "written": out, "paper": dataset.paper}
    if as_json:
        typer.echo(json.dumps(facts, ensure_ascii=False, indent=2))
        return
    screen = console()
    show(facts, screen)
    if dataset.nonzeros:
        screen.print(f"\nthe paper's tensor: {_sizes(dataset)}")
    screen.print(f"wrote {tensor.nnz:,} cells to {out}", markup=False, soft_wrap=True)


def _watched(work: Callable[[Callable[[int, int], None]], "CountTensor"]) -> "CountTensor":
    """Do the work under a bar on standard error, if that is a terminal."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    screen = console(stderr=True)
    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task("reading", total=None)
        return work(lambda done, size: bar.update(task, completed=done, total=size))


def _check_target(out: str) -> None:
    """Refuse a file that could not be written."""
    from tallyfold.data.formats.files import ending_of

    file = Path(out)
    ending_of(file)
    if not file.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(file.parent)!r} to write to.")
    refuse_unwritable(out)


def _stop_words(text: str) -> str | list[str] | None:
    """Read ``english``, ``none`` or a file of words."""
    if text in ("english", "none"):
        return text if text == "english" else None
    if not Path(text).is_file():
        raise ParameterError(
            f"--stop-words wants 'english', 'none' or a file of words; there is no file {text!r}."
        )
    try:
        return Path(text).read_text(encoding="utf-8").split()
    except UnicodeDecodeError as error:
        raise ParameterError(f"--stop-words wants a file written in UTF-8; {error}.") from error


def _min_df(text: str) -> int | float:
    try:
        return int(text) if re.fullmatch(r"\d{1,18}", text) else float(text)
    except ValueError as error:
        raise ParameterError(
            f"--min-df wants a number of documents or a share of them; got {text!r}."
        ) from error


def _max_words(text: str) -> int | None:
    if text != "all" and not re.fullmatch(r"\d{1,18}", text):
        raise ParameterError(f"--max-words wants a whole number or 'all'; got {text!r}.")
    return None if text == "all" else int(text)


def _years(text: str) -> tuple[int, int] | None:
    found = re.fullmatch(r"(\d{1,4})-(\d{1,4})", text)
    if text != "all" and not found:
        raise ParameterError(f"--years wants two years such as 2003-2016, or 'all'; got {text!r}.")
    return (int(found[1]), int(found[2])) if found else None


READ: dict[str, Callable[[str], Any]] = {
    "stop_words": _stop_words,
    "min_df": _min_df,
    "max_words": _max_words,
    "years": _years,
    "columns": options.names,
}
"""How the text of an option is read."""


def _sizes(dataset: "Dataset") -> str:
    sizes = " x ".join(f"{size:,}" for size in dataset.shape)
    return f"{sizes}, {dataset.nonzeros:,} non-zeros"


def _plain(dataset: "Dataset") -> dict[str, Any]:
    """Return an entry as plain values that JSON can hold."""
    first = ("title", "what", "axes", "paper", "way", "origin", "terms", "files", "steps")
    return {name: getattr(dataset, name) for name in (*first, "remarks", "options")}


def _show_dataset(name: str, dataset: "Dataset", out: "Console") -> None:
    """Print an entry for a person."""
    out.print(f"{name}: {dataset.title}", style="bold", markup=False)
    parts = {
        "": dataset.what,
        "axes": " x ".join(dataset.axes),
        "in the paper": _sizes(dataset) if dataset.nonzeros else "not there",
        "from": dataset.origin,
        "terms": dataset.terms,
        "files": ", ".join(dataset.files) or "none",
        "how": dataset.remarks,
    }
    for head, text in parts.items():
        line = f"{head}: {text}" if head else text
        out.print(line, markup=False, soft_wrap=head == "from")  # an address is to be copied whole
    out.print("\nSteps", style="bold")
    for number, step in enumerate(dataset.steps, start=1):
        out.print(f"{number}. {step}", markup=False, soft_wrap=step.startswith("tallyfold"))
    if dataset.options:
        listed = ", ".join(f"{option}={default!r}" for option, default in dataset.options.items())
        out.print("\nOptions and their defaults", style="bold")
        out.print(printable(listed), markup=False)
