"""``--processes N``: the same command again in N processes, by torchrun."""

import logging
import os
import signal
import sys
import uuid
from contextvars import ContextVar
from typing import Annotated

import typer

from tallyfold.cli.options import option
from tallyfold.errors import ParameterError, ProcessError
from tallyfold.inference.distributed.launched import processes_started

COMMAND_LINE: ContextVar[list[str]] = ContextVar("tallyfold_command_line")
"""The words that the command was given."""

PROCESSES = "Share the fit between N processes on this machine (bptf and vae-bptf)."
Processes = Annotated[int | None, option("N", PROCESSES, min=1)]


def speaks() -> bool:
    """Tell whether this is the process that reads, writes and prints."""
    return processes_started()[0] == 0


def in_many() -> bool:
    """Tell whether torchrun started this process beside others."""
    return processes_started()[1] > 1


def refuse_standard_input(files: list[str]) -> None:
    """Refuse to read what only one process can read."""
    if "-" in files:
        raise ParameterError(
            "standard input ('-') cannot be shared by several processes; save it in a file first."
        )


def run_in(number: int) -> None:
    """Run this command in several processes and end as they end."""
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    for name in [*logging.root.manager.loggerDict]:  # they show tracebacks
        if name.startswith("torch.distributed"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    threads = str(max(1, (os.cpu_count() or 1) // number))
    for name in ("OMP_NUM_THREADS", "TALLYFOLD_THREADS"):
        os.environ.setdefault(name, threads)
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=number,
        run_id=str(uuid.uuid4()),
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
    )
    try:
        elastic_launch(config, sys.executable)("-m", "tallyfold", *COMMAND_LINE.get())
    except ChildFailedError as error:
        ended = {rank: failure.exitcode for rank, failure in error.failures.items()}
        raise _outcome(ended, number) from None
    except SignalException as error:  # Ctrl-C or the like: the processes have said so
        raise typer.Exit(128 + int(error.sigval)) from None


def _outcome(ended: dict[int, int], number: int) -> Exception:
    """Return how to end: with the exit code of the processes, or naming the one that died.

    Those that ended by SIGTERM were stopped because another one had ended.
    """
    died = {rank: -code for rank, code in ended.items() if code < 0 and code != -signal.SIGTERM}
    if not died:
        return typer.Exit(max(1, *ended.values()))
    rank, by = min(died.items())
    return ProcessError(
        f"process {rank + 1} of {number} was killed (signal {by}); the others have stopped. "
        "The same command with --resume goes on, also with another number of processes."
    )
