"""A fit as a barrier job: Spark starts all processes at once, each of which reads its own range."""

from __future__ import annotations

import os
from typing import Any, TypeVar

from tallyfold.data.packages import imported
from tallyfold.data.store import Store, open_store
from tallyfold.errors import ParameterError
from tallyfold.inference.distributed.scatter import scatter
from tallyfold.inference.distributed.torch_group import many_processes

M = TypeVar("M")


def fit(
    store: Store | str | os.PathLike[str],
    model: M,
    *,
    num_processes: int,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
) -> M:
    """Fit a model to a store in several processes that Spark starts; return the fitted model.

    The job is a barrier job of pyspark's TorchDistributor: it waits until Spark has a slot for each
    process, and fails as a whole.

    Parameters
    ----------
    store
        A store in a folder that every machine sees at the same path.
    model
        What to fit: `BPTF`, `VAEBPTF` or `Margins`. It is not changed.
    num_processes
        How many processes; each takes ``spark.task.cpus`` processors.
    checkpoint, resume
        A folder for the run, which every machine sees; and whether to go on with the run that it
        has, also with another number of processes.

    Examples
    --------
    >>> model = fit("store", tf.BPTF(n_components=8), num_processes=4)  # doctest: +SKIP
    """
    if isinstance(num_processes, bool) or not isinstance(num_processes, int) or num_processes < 1:
        raise ParameterError(
            f"`num_processes` must be a whole number of at least 1; got {num_processes!r}."
        )
    folder = (store if isinstance(store, Store) else open_store(store)).folder
    kept = None if checkpoint is None else os.path.abspath(os.path.expanduser(checkpoint))
    torch = imported("pyspark.ml.torch.distributor", "tallyfold.spark", "tallyfold[spark]")
    distributor = torch.TorchDistributor(num_processes, local_mode=False, use_gpu=False)
    return distributor.run(  # type: ignore[no-any-return]
        _fitted, str(folder.absolute()), model, kept, resume
    )


def _fitted(folder: str, model: Any, checkpoint: str | None, resume: bool) -> Any:
    """Fit together with the other processes; Spark takes what the first one returns."""
    with many_processes():
        return model.fit(scatter(open_store(folder)), checkpoint=checkpoint, resume=resume)
