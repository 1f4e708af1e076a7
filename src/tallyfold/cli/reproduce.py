"""``tallyfold reproduce``: the paper's experiments, our figures beside the published ones."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallyfold.cli.files import refuse_unwritable
from tallyfold.cli.options import names as split_names
from tallyfold.cli.terminal import console, show_table
from tallyfold.errors import ParameterError

if TYPE_CHECKING:
    from rich.console import Console

    from tallyfold.paper.setting import Reproduction, Setting, Tensors


def reproduce(
    name: Annotated[str | None, typer.Argument(help="An experiment, or 'all'.")] = None,
    show_list: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Minutes: 20,000 cells of each tensor, one seed.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="FOLDER",
            help="Tidy Parquet tensors: a column per axis, and 'count'. Without it, the demo "
            "tensor and a simulated one.",
        ),
    ] = None,
    tensors: Annotated[
        str | None,
        typer.Option("--tensors", metavar="A,B,...", help="Use only these of the folder."),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=1, help="How many seeds; 3, or 1 if quick.")
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            "--tune",
            min=1,
            metavar="N",
            help="Search each model's parameters first, N trials of 5 folds, as the paper did "
            "(mae, loglik and coherence; long).",
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FOLDER", help="Where to write; finished fits stay."),
    ] = Path("reproduction"),
    figures: Annotated[bool, typer.Option(help="Draw figures, too.")] = True,
) -> None:
    """Run an experiment of the paper and print our figures beside the published ones.

    Each is run as the paper ran it and with all models under the same zeros, beside the constant
    predictors. A run that was stopped goes on with the same command.

    \b
    [bold]Examples[/]
      tallyfold reproduce --list
      tallyfold reproduce mae --quick
      tallyfold reproduce loglik --data tensors/ --tensors nips,grocery --out results/
    """  # noqa: D301
    from tallyfold.paper.experiments import EXPERIMENTS

    screen = console()
    if show_list or name is None:
        rows = [(key, one.asks, one.place) for key, one in EXPERIMENTS.items()]
        show_table(screen, "The paper's experiments", ["name", "asks", "in the paper"], rows)
        screen.print("\nRun one with: tallyfold reproduce NAME --quick")
        return
    if name != "all" and name not in EXPERIMENTS:
        raise ParameterError(
            f"the experiment must be 'all' or one of {', '.join(EXPERIMENTS)}; got {name!r}."
        )
    from tallyfold.paper.setting import Setting, check_tensors

    refuse_unwritable(out)
    chosen = _chosen(data, tensors)
    run = list(EXPERIMENTS) if name == "all" else [name]
    if data is not None and any(EXPERIMENTS[one].takes_data for one in run):
        check_tensors(chosen)
    setting = Setting(
        chosen,
        out / ("quick-fits" if quick else "fits"),
        tuple(range(seeds or (1 if quick else 3))),
        quick,
        trials,
        lambda line: screen.print(line, markup=False, overflow="ellipsis", no_wrap=True),
    )
    given = {"--data": data and "FOLDER", "--tensors": tensors, "--seeds": seeds, "--tune": trials}
    parts = ["--quick"] * quick + [str(part) for pair in given.items() if pair[1] for part in pair]
    command = shlex.join(["tallyfold", "reproduce", name, *parts])  # the folder stays private
    for one in run:
        _run_one(one, setting, out, command, figures, screen)


def _run_one(
    name: str, setting: "Setting", out: Path, command: str, figures: bool, screen: "Console"
) -> None:
    from tallyfold.paper.experiments import EXPERIMENTS
    from tallyfold.paper.page import write_reproduction

    screen.print(f"{name}: {EXPERIMENTS[name].asks}", style="bold")
    try:
        result = EXPERIMENTS[name].run(setting)
    except KeyboardInterrupt:
        typer.echo(
            f"Stopped. Finished fits are in {setting.folder}; the same command goes on.", err=True
        )
        raise typer.Exit(130) from None
    files = write_reproduction(name, result, out, command, figures=figures)
    _show(result, screen)
    screen.print(f"\nWritten: {', '.join(str(file) for file in files)}", markup=False)


def _show(result: "Reproduction", screen: "Console", most: int = 60) -> None:
    """Print the tables, numbers with four digits, and what to know when reading them."""
    from tallyfold.paper.page import table_cells

    for title, frame in result.tables.items():
        columns, rows = table_cells(frame)
        screen.print()
        show_table(screen, title, columns, rows[:most])
        if len(rows) > most:
            screen.print(f"... and {len(rows) - most} more rows in the file.")
    screen.print()
    for note in result.notes:
        screen.print(f"- {note}", markup=False)


def _chosen(data: Path | None, tensors: str | None) -> "Tensors":
    from tallyfold.paper.setting import built_in_tensors, tensors_in

    found = built_in_tensors() if data is None else tensors_in(data)
    wanted = split_names(tensors) or list(found)
    unknown = [name for name in wanted if name not in found]
    if unknown:
        raise ParameterError(
            f"--tensors must be among {', '.join(found)}; got {', '.join(unknown)}."
        )
    return {name: found[name] for name in wanted}
