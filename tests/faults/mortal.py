"""Work done by processes that are killed (SIGKILL) at random moments, again and again.

The work is done in forks of a process that has imported everything and done nothing: so a kill
costs milliseconds, not the seconds of a start, and each fork begins like a fresh process.
"""

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable

import numpy as np

Work = Callable[[], object]


def in_fork(work: Work, live: float | None = None) -> bool:
    """Do something in a fork, to its end or for so many seconds; tell whether it was killed."""
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        _do_and_exit(work)
    if live is not None:
        time.sleep(live)
        os.kill(process, signal.SIGKILL)
    status = os.waitpid(process, 0)[1]
    if os.WIFSIGNALED(status) and live is not None:
        return True
    assert status == 0, f"{work} ended with status {status}"
    return False


def seconds_of(work: Work) -> float:
    """Do something in a fork, and return how long it took."""
    start = time.perf_counter()
    in_fork(work)
    return time.perf_counter() - start


def kill_at_random(work: Work, check: Work, lives: float, kills: int, seed: int) -> int:
    """Begin some work so many times, kill it within so many seconds, check what it left.

    Returns how often it was killed before it was done.
    """
    rng, killed = np.random.default_rng(seed), 0
    for _ in range(kills):
        killed += in_fork(work, live=float(rng.uniform(0, lives)))
        in_fork(check)
    return killed


def _do_and_exit(work: Work) -> None:
    code = 1
    try:
        work()
        code = 0
    except SystemExit as done:
        code = done.code if isinstance(done.code, int) else int(done.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
