"""The ``tallyfold`` command: the only part of the package that prints.

Verbs that belong together share a file; the numerical packages are imported inside the functions,
so that ``tallyfold --help`` stays instant.
"""

import io
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tallyfold.cli import datasets
from tallyfold.cli.compare import compare, score
from tallyfold.cli.convert import convert, split
from tallyfold.cli.demo import demo
from tallyfold.cli.describe import describe
from tallyfold.cli.fit import fit
from tallyfold.cli.forecasts import backtest, forecast
from tallyfold.cli.model_cells import fold_in, predict, surprise, update
from tallyfold.cli.model_components import edit, explain
from tallyfold.cli.model_tables import components, profile, report, top
from tallyfold.cli.processes import COMMAND_LINE, speaks
from tallyfold.cli.reproduce import reproduce
from tallyfold.cli.search import rank, tune
from tallyfold.cli.stability import stability
from tallyfold.cli.terminal import end_quietly_with_the_reader, say_aside
from tallyfold.cli.topics import topics
from tallyfold.errors import (
    ConvergenceWarning,
    DroppedWarning,
    ProcessError,
    TallyfoldError,
    printable,
)
from tallyfold.version import __version__

BAD_INPUT = 2
SAID_HERE = {
    "axes=": "--axes A,B,...",
    "value=": "--value COLUMN or --count-rows",
    "delimiter=": "--delimiter SIGN",
    "missing='drop'": "--missing drop",
    "missing='label'": "--missing label",
    "bad='drop'": "--bad drop",
    "`bad`": "--bad",
    "repeated='sum'": "--repeated sum, mean, last or max",
    "`repeated`": "--repeated",
    "(top=, min_nonzeros=)": "--top AXIS=N, --min-nonzeros AXIS=N",
    "(n_components=)": "--components K",
    "Double the column": "--query \"select *, 2 * COLUMN as doubled from 'FILE'\" "
    "--database :memory: --value doubled, and --scale 1-10 to fit",
    "pandas.to_datetime(": "--query \"select * from read_csv('FILE', dateformat='%d/%m/%Y')\" "
    "--database :memory:",
    "or rename it": "--query \"select * from 'FILE'\" --database :memory: reads JSON too",
    "`sql`": "--query SQL",
    "`given` must name axes": "--for AXIS=LABEL",
    "`connection_or_uri`": "--database URI",
    "`missing`": "--missing",
    "bad_lines=": "--bad-lines skip",
    "encoding=": "--encoding NAME",
    "columns=": "--columns A,B,...",
    "again=True": "--again",
    "model.forecast(N)": "--horizon N",
    "unknown=": "--unknown prior or --unknown AXIS=prior",
    "bins=": "--bin AXIS=UNIT",
    "`bins`": "--bin",
    "ordered=": "--ordered A,B,...",
    "`ordered`": "--ordered",
    "`tz`": "--tz ZONE",
    "use zeros='missing'": "--zeros missing",
    "use zeros='observed'": "--zeros observed",
}
"""What the library's messages call an argument, and the option that it is here."""

INSTEAD = {
    "--axes": "The axes are those of the model: leave it out",
    "rank --components": "Here it is --ranks A,B,...",
    "tune --components": "Here it is --choices n_components=A,B,...",
    "profile --axis": "Here it is --of AXIS=LABEL",
    "profile --for": "Here it is --of AXIS=LABEL",
}
"""What to do without an option that other verbs have."""

CLOSED = "standard output is closed, so the answer would be lost. Send it to a file, or /dev/null."
SMALLER = "Take fewer components, or keep fewer labels (--min-nonzeros, --top)."


class _Verbs(TyperGroup):
    """The verbs; a wrong word of the command line is shown without what it tells a terminal."""

    def invoke(self, ctx: Any) -> Any:
        """Run a verb."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            if hasattr(error, "format_message"):
                error.message = printable(error.message)  # type: ignore[attr-defined]
                option = getattr(error, "option_name", "")
                verb = getattr(getattr(error, "ctx", None), "info_name", "")
                instead = INSTEAD.get(option) or INSTEAD.get(f"{verb} {option}")
                if instead:
                    error.message += f". {instead}"  # type: ignore[attr-defined]
                    error.possibilities = []  # type: ignore[attr-defined]
            raise


app = typer.Typer(
    name="tallyfold",
    cls=_Verbs,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "Start": (demo, describe, convert, split),
    "Fit and compare": (fit, compare, tune, rank),
    "Ask a model": (score, predict, surprise, fold_in, update, report),
    "Time": (forecast, backtest),
    "Components": (components, explain, top, profile, topics, stability, edit),
    "The paper": (reproduce,),
}
"""The verbs, in the order and the groups that the help shows."""
for _panel, _verbs in PANELS.items():
    for _verb in _verbs:
        app.command(rich_help_panel=_panel)(_verb)
app.add_typer(datasets.app, name="datasets", rich_help_panel="The paper")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tallyfold {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Find hidden structure in sparse count data of many axes.

    Start with [bold]tallyfold demo[/], or look at a file of your own:

    \b
      tallyfold describe events.parquet --axes author,word,year
    """  # noqa: D301


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; bad input ends with exit code 2 and the library's own message."""
    if sys.stdout is None:
        say_aside(CLOSED)
        raise SystemExit(BAD_INPUT)
    end_quietly_with_the_reader()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # any label can be shown anywhere
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        warnings.simplefilter("ignore", DroppedWarning)  # the verbs list what was left out
        warnings.simplefilter("ignore", ConvergenceWarning)  # `fit` says what ended it
        try:
            COMMAND_LINE.set(list(sys.argv[1:] if arguments is None else arguments))
            app(args=arguments)
        except (TallyfoldError, OSError) as error:
            if speaks() or isinstance(error, ProcessError):
                say_aside(_message(error), keep="\n" if isinstance(error, TallyfoldError) else "")
            raise SystemExit(BAD_INPUT) from None
        except MemoryError as error:
            if speaks():
                say_aside(f"there is not enough memory: {error or 'no more is given'}. {SMALLER}")
            raise SystemExit(BAD_INPUT) from None


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Write a warning without the line of code that gave it."""
    if speaks():
        say_aside(_message(message))


def _message(error: Warning | Exception | str) -> str:
    """Return an error or warning in the words of the command line.

    The operating system's errors lose their number.
    """
    if isinstance(error, OSError) and error.strerror:
        return f"{'' if error.filename is None else f'{error.filename}: '}{error.strerror}."
    message = str(error)
    hints = [option for word, option in SAID_HERE.items() if word in message]
    between = "\n" if getattr(error, "lines", ()) else " "
    here = f"{between}(Here: {', '.join(hints)}.)".replace("....)", "...)")
    return message + (here if hints else "")
