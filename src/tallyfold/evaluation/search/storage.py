"""Where a search keeps its trials: an Optuna study, in a file, a database or in memory."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tallyfold.errors import MissingPackageError, ParameterError, StorageError
from tallyfold.evaluation.search.identity import refuse_other

if TYPE_CHECKING:
    from optuna import Study

SEARCH_FILE = "tallyfold-search.db"
"""Where trials are kept if nothing else is said: a file of SQLite's in the working folder."""
IDENTITY = "tallyfold-search"
"""The study's attribute that says what it is a search of."""
WAIT_FOR_LOCK = 60.0
"""Seconds that SQLite waits for another process to be done with the file."""
TRIES = 6

Result = TypeVar("Result")


def require_optuna() -> None:
    """Say what to install if Optuna is not there."""
    try:
        import optuna  # noqa: F401
    except ImportError as error:
        raise MissingPackageError(
            "a search needs the package optuna: pip install tallyfold[tune]."
        ) from error


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Keep Optuna from writing to the terminal, inside the block."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


@contextmanager
def opened_study(storage: Any, name: str, identity: dict[str, Any], pruner: Any) -> Iterator[Study]:
    """Open the study of a search, or make it; refuse one of another search."""
    import optuna

    place = _place(storage)
    opened = _opened(place) if isinstance(place, str) else place
    try:
        study = patiently(
            lambda: optuna.create_study(
                storage=opened,
                study_name=name,
                load_if_exists=True,
                direction="minimize",
                sampler=optuna.samplers.RandomSampler(),  # never asked: see search_claims
                pruner=pruner,
            )
        )
        _check_identity(study, identity, shown_place(storage))
        yield study
    finally:
        if isinstance(place, str) and hasattr(opened, "engine"):
            opened.remove_session()
            opened.engine.dispose()


def patiently(act: Callable[[], Result]) -> Result:
    """Do something to a storage; wait and do it again if other processes were in the way."""
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import IntegrityError, OperationalError

    for attempt in range(TRIES):
        try:
            return act()
        except (StorageInternalError, OperationalError, IntegrityError) as error:
            if attempt == TRIES - 1:
                raise StorageError(
                    f"the storage of the search failed: {error.__cause__ or error}. Finished "
                    "trials are kept; the same call goes on with them."
                ) from error
            time.sleep(random.random() * 0.2 * 2**attempt)
    raise AssertionError("not reached")


def _place(storage: Any) -> Any:
    """Return the URL of a file or database; a storage of Optuna's, and None, as they are."""
    import optuna
    from sqlalchemy.engine import URL

    if not isinstance(storage, str | os.PathLike | optuna.storages.BaseStorage | None):
        raise ParameterError(
            f"`storage` must be a file, the URL of a database or None; got {storage!r}."
        )
    if not isinstance(storage, str | os.PathLike) or "://" in str(storage):
        return storage
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


def _opened(url: str) -> Any:
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    options = {"connect_args": {"timeout": WAIT_FOR_LOCK}} if url.startswith("sqlite") else {}
    for attempt in range(TRIES):
        try:
            return optuna.storages.RDBStorage(url, engine_kwargs=options)
        except (SQLAlchemyError, ImportError, RuntimeError, ValueError) as error:
            if attempt == TRIES - 1 or not _may_pass(error):
                raise StorageError(
                    "`storage` must be a file of SQLite's, in a place that has room and can be "
                    f"written to, or the URL of a database; {shown_place(url)} gave: "
                    f"{getattr(error, 'orig', None) or error}"
                ) from error
            time.sleep(random.random() * 0.2 * 2**attempt)
    raise AssertionError("not reached")


def shown_place(storage: Any) -> str:
    """Return what to call a storage in a message: without a password."""
    return repr(str(storage).rpartition("@")[2])


def _may_pass(error: Exception) -> bool:
    """Tell whether another process that makes the same tables may be the reason."""
    return any(word in str(error) for word in ("already exists", "locked", "UNIQUE constraint"))


def _check_identity(study: Study, identity: dict[str, Any], storage: str) -> None:
    known = study.user_attrs.get(IDENTITY)
    if known is None and not study.get_trials(deepcopy=False):
        patiently(lambda: study.set_user_attr(IDENTITY, identity))
        known = study.user_attrs[IDENTITY]
    where = f"study {study.study_name!r} in {storage}"
    refuse_other(known, identity, where, "`study` or `storage`")
