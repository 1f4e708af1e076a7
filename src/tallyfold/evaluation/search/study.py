"""The Optuna study of a search: in a file, a database or in memory."""

from __future__ import annotations

import json
import os
import random
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallyfold.data.secrets import without_secrets
from tallyfold.errors import MissingPackageError, ParameterError, StorageError

if TYPE_CHECKING:
    from optuna import Study

SEARCH_FILE = "tallyfold-search.db"
"""Where trials are stored by default: an SQLite file in the working folder."""
IDENTITY = "tallyfold-search"
"""The study's attribute that says what it is a search of."""
HEARTBEAT, GRACE = 10, 60
"""Seconds between two heartbeats of a running trial, and after the last until it is retried."""
WAIT_FOR_LOCK = 60.0
"""Seconds that SQLite waits for another process to be done with the file."""
SHOWN = 100
"""Characters of a setting that a message shows."""


def require_optuna() -> None:
    """Say what to install if Optuna is not there."""
    try:
        import optuna  # noqa: F401
    except ImportError as error:
        raise MissingPackageError(
            "a search needs the package optuna: pip install tallyfold[tune]."
        ) from error


@contextmanager
def opened_study(storage: Any, name: str, identity: dict[str, Any], pruner: Any) -> Iterator[Study]:
    """Open the study of a search, or make it; refuse one of another search.

    Inside the block Optuna writes nothing to the terminal, and a failure of the storage is a
    `StorageError`.
    """
    import optuna

    verbosity, opened = optuna.logging.get_verbosity(), storage
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings(), _storage_errors(storage):
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            if isinstance(storage, str | os.PathLike):
                with _storage_errors(storage, ImportError, RuntimeError, ValueError):
                    opened = _opened(_url(storage))
            elif not isinstance(storage, optuna.storages.BaseStorage | None):
                raise ParameterError(
                    f"`storage` must be a file, the URL of a database or None; got {storage!r}."
                )
            study = optuna.create_study(
                storage=opened, study_name=name, load_if_exists=True, pruner=pruner
            )
            if IDENTITY not in study.user_attrs and not study.get_trials(deepcopy=False):
                study.set_user_attr(IDENTITY, identity)
            where = f"study {name!r} in {shown_place(storage)}"
            refuse_other(study.user_attrs.get(IDENTITY), identity, where, "`study` or `storage`")
            yield study
    finally:
        optuna.logging.set_verbosity(verbosity)
        if opened is not storage:
            opened.remove_session()
            opened.engine.dispose()


@contextmanager
def _storage_errors(storage: Any, *others: type[Exception]) -> Iterator[None]:
    """Turn the errors of a database, whatever Optuna makes of them, and others into one of ours."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except Exception as error:
        failure: BaseException | None = error
        while failure is not None and not isinstance(failure, (SQLAlchemyError, *others)):
            failure = failure.__cause__ or failure.__context__
        if failure is None or isinstance(error, StorageError):
            raise
        words = str(getattr(failure, "orig", None) or failure)
        raise StorageError(
            "`storage` must be a file of SQLite's, in a place that has room and can be written to, "
            f"or the URL of a database; {shown_place(storage)} gave: "
            f"{without_secrets(words, str(storage))}. Finished trials are kept; the same call "
            "goes on with them."
        ) from error


def refuse_other(known: Any, wanted: Mapping[str, Any], where: str, instead: str) -> None:
    """Refuse stored results of other settings; say which setting differs.

    Parameters
    ----------
    known, wanted
        The settings the results are of, and those of this call.
    where, instead
        What to call the file or study that holds them, and what to choose another of.
    """
    had, has = (json.loads(json.dumps(each or {})) for each in (known, wanted))
    other = [key for key in {**has, **had} if had.get(key) != has.get(key)]
    if other:
        before, now = (json.dumps(each.get(other[0]))[:SHOWN] for each in (had, has))
        raise StorageError(
            f"{where} is of another call: its {other[0]} was {before}; here it is {now}. Make the "
            f"same call to go on with it, or choose another {instead}."
        )


def shown_place(storage: Any) -> str:
    """Return what to call a storage in a message: without a password."""
    return repr(without_secrets(str(storage), str(storage)))


def _opened(url: str) -> Any:
    """Return a storage in which trials of processes that were killed are retried."""
    import optuna
    from sqlalchemy.exc import DBAPIError

    class Storage(optuna.storages.RDBStorage):
        def record_heartbeat(self, trial_id: int) -> None:
            with suppress(Exception):  # the next one may get through; the fit must go on
                super().record_heartbeat(trial_id)

    timeout = {"connect_args": {"timeout": WAIT_FOR_LOCK}} if url.startswith("sqlite") else {}
    options: dict[str, Any] = {
        "engine_kwargs": timeout,
        "heartbeat_interval": HEARTBEAT,
        "grace_period": GRACE,
        "heartbeat_stale_trial_callback": optuna.storages.RetryHeartbeatStaleTrialCallback(),
    }
    try:
        return Storage(url, **options)
    except DBAPIError:  # another process may be making the same tables
        time.sleep(1 + random.random())
        return Storage(url, **options)


def _url(storage: Any) -> str:
    """Return the URL of a file or database."""
    from sqlalchemy.engine import URL

    if "://" in str(storage):
        return str(storage)
    file = Path(storage).absolute()
    if not file.parent.is_dir():
        raise StorageError(
            f"{str(file)!r} cannot be made: there is no folder {str(file.parent)!r}."
        )
    if file.is_file() and not _is_sqlite(file):
        raise StorageError(
            f"{str(file)!r} is no file of SQLite's, and would be lost. Name another one."
        )
    return URL.create("sqlite", database=str(file)).render_as_string(hide_password=False)


def _is_sqlite(file: Path) -> bool:
    """Tell a database, or an empty file that may become one, from other files."""
    with file.open("rb") as stream:
        return stream.read(16) in (b"SQLite format 3\0", b"")
