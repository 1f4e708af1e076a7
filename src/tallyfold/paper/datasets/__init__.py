"""The paper's tensors: what each is, and how to build it from your own download."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files as package_files
from typing import Any, Literal

import tallyfold as tf
from tallyfold.data.axis import listing
from tallyfold.data.select import filtered
from tallyfold.errors import DataError, ParameterError, did_you_mean
from tallyfold.paper.datasets.amazon import build_video_rating, build_video_review
from tallyfold.paper.datasets.papers import build_dblp, build_nips
from tallyfold.paper.datasets.reader import PathLike, Progress, Reader, raw_files


@dataclass(frozen=True)
class Dataset:
    """One entry of `DATASETS`.

    ``shape`` and ``nonzeros`` are those the paper reports. ``files`` are the names, as patterns,
    of the raw files that ``build`` reads; a dataset that needs none has an empty tuple. ``build``
    is None for data that cannot be had.
    """

    title: str
    what: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    nonzeros: int
    files: tuple[str, ...]
    origin: str
    terms: str
    steps: tuple[str, ...]
    remarks: str
    build: Callable[..., tf.CountTensor] | None = field(default=None, repr=False)

    @property
    def way(self) -> str:
        """How it is had: from the user's own download, at once, or not at all."""
        if self.build is None:
            return "not public"
        return "your download" if self.files else "ready"

    @property
    def paper(self) -> dict[str, Any] | None:
        """The size that the paper reports; None if the paper does not have it."""
        return {"shape": self.shape, "nonzeros": self.nonzeros} if self.nonzeros else None

    @property
    def options(self) -> dict[str, Any]:
        """The options of ``build`` that are its own, with their defaults."""
        if self.build is None:
            return {}
        parameters = inspect.signature(self.build).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def build_simulated(
    *, density: float | None = 0.10, random_state: int | None = 0
) -> tf.CountTensor:
    """Draw the paper's synthetic tensor; `simulate.paper` also gives the true factors."""
    return tf.simulate.paper(density=density, random_state=random_state).tensor


BUILDERS: dict[str, Callable[..., tf.CountTensor]] = {
    "dblp": build_dblp,
    "nips": build_nips,
    "video-review": build_video_review,
    "video-rating": build_video_rating,
    "simulated": build_simulated,
    "demo": tf.load_demo,
}


def _read_datasets() -> dict[str, Dataset]:
    text = package_files(__name__).joinpath("datasets.toml").read_text(encoding="utf-8")
    found = {}
    for name, facts in tomllib.loads(text).items():
        fixed: Any = {k: tuple(v) if isinstance(v, list) else v for k, v in facts.items()}
        found[name] = Dataset(**fixed, build=BUILDERS.get(name))
    return found


DATASETS = _read_datasets()
"""The tensors of the paper in its order, then the one of this package."""


def build_dataset(
    name: str,
    files: PathLike | Sequence[PathLike] | None = None,
    *,
    min_nonzeros: Mapping[str, int] | None = None,
    top: Mapping[str, int] | None = None,
    bad_lines: Literal["error", "skip"] = "error",
    encoding: str = "utf-8",
    progress: Progress | None = None,
    **options: Any,
) -> tf.CountTensor:
    r"""Build a tensor of the paper from your own download of the raw files.

    Parameters
    ----------
    name
        One of `DATASETS`, which says what each is and where its files come from.
    files
        The folder of the download, a file, a pattern, or a list of these. Files may be gzipped.
        Leave it out where no file is needed.
    min_nonzeros, top
        As in `CountTensor.from_frame`.
    bad_lines
        What to do with a line that cannot be used: an error that names it, or leave it out.
    encoding
        How text is written in the files.
    progress
        Called now and then with the number of bytes read and their number in all.
    **options
        Those of the dataset, listed by ``DATASETS[name].options``: ``min_df``, ``max_words`` and
        ``stop_words`` for texts (as in `CountTensor.from_documents`), ``years=(2003, 2016)``,
        ``sample=0.01``, ``unit="month"`` and so on. Others are refused.

    Returns
    -------
    CountTensor
        Whose `dropped` says what was left out: papers without an abstract, bad lines, ...

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "reviews_Amazon_Instant_Video_5.json"
    >>> review = {"reviewerID": "A1", "asin": "B1", "reviewText": "Funny, really funny."}
    >>> _ = file.write_text(json.dumps(review) + "\n")
    >>> build_dataset("video-review", file).to_frame()
      user video    word  count
    0   A1    B1   funny      2
    1   A1    B1  really      1
    """
    dataset = dataset_named(name)
    if dataset.build is None:
        raise DataError(f"{name!r} cannot be built. {dataset.terms} {dataset.steps[0]}")
    unknown = [option for option in options if option not in dataset.options]
    if unknown:
        raise ParameterError(
            f"{name!r} has no option {listing(unknown)}; it has "
            f"{listing(list(dataset.options), 20) or 'none of its own'}."
        )
    if not dataset.files:
        if files is not None:
            raise ParameterError(f"{name!r} needs no files; got {files!r}. Leave them out.")
        return dataset.build(**options).filter(min_nonzeros=min_nonzeros, top=top)
    found = raw_files(files, dataset.files)
    reader = Reader(found, bad_lines=bad_lines, encoding=encoding, progress=progress)
    built = dataset.build(reader, found, **options)
    dropped = [*reader.dropped, *built.dropped]
    tensor = tf.CountTensor.of_canonical(built.axes, built.indices, built.counts, dropped)
    return filtered(tensor, min_nonzeros=min_nonzeros or {}, top=top or {})


def dataset_named(name: str) -> Dataset:
    """Return an entry of `DATASETS`; a name that is not there is a ParameterError."""
    if name not in DATASETS:
        meant = did_you_mean(name, DATASETS)
        raise ParameterError(f"`name` must be one of {', '.join(DATASETS)}; got {name!r}.{meant}")
    return DATASETS[name]
