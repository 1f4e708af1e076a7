"""CountTensor: sparse counts over named, labelled axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tallyfold.data.axis import Axis, listing, python_values
from tallyfold.data.axis_order import Ordered
from tallyfold.data.cells import checked_indices, merge_cells, whole_counts
from tallyfold.data.packages import imported
from tallyfold.data.summary import Dropped, one_line
from tallyfold.data.time_units import Bins
from tallyfold.errors import CountError, LabelError, ParameterError, ShapeError

if TYPE_CHECKING:
    from tallyfold.data.part import Part

FrameKind = Literal["pandas", "polars", "pyarrow"]
Repeated = Literal["sum", "error", "mean", "last", "max"]
Missing = Literal["error", "drop", "label"]
Bad = Literal["error", "drop"]


class CountTensor:
    """Sparse counts over two or more named, labelled axes.

    Only cells with a count of at least one are stored, each once, sorted by position, first axis
    first. Whether the other cells are zeros or missing is for the model to say. A tensor never
    changes: every method returns a new one, and its arrays are read-only.

    Parameters
    ----------
    axes
        The axes, in order.
    indices
        One row per cell: its position on each axis.
    counts
        The count of each cell, at least one.

    See Also
    --------
    CountTensor.from_frame : from a data frame of events or counts.
    CountTensor.from_documents : from texts.
    tallyfold.read_counts : from files.

    Examples
    --------
    >>> tensor = CountTensor(
    ...     [Axis("user", ["ann", "bob"]), Axis("item", ["apple", "pear", "plum"])],
    ...     indices=[[0, 0], [0, 2], [1, 1]],
    ...     counts=[1, 4, 1],
    ... )
    >>> tensor
    CountTensor(user 2 x item 3; 3 non-zeros, density 50 %, total 6; counts 1: 67 %, 3-5: 33 %)
    >>> tensor.marginal("item").tolist()
    [1, 1, 4]
    """

    __slots__ = ("_axes", "_counts", "_dropped", "_indices", "_part")

    def __init__(self, axes: Sequence[Axis], indices: npt.ArrayLike, counts: npt.ArrayLike) -> None:
        axes = _checked_axes(axes)
        positions = checked_indices(np.asarray(indices), axes)
        numbers = whole_counts(np.asarray(counts), name="counts", row_word="cell")
        if numbers.shape != (len(positions),):
            raise ShapeError(
                f"counts must have one number per row of indices, shape ({len(positions)},); "
                f"got shape {numbers.shape}."
            )
        if len(numbers) and numbers.min() < 1:
            raise CountError(
                "a CountTensor stores counts of at least one; got "
                f"{int((numbers == 0).sum()):,} zeros. Leave those cells out."
            )
        cells = merge_cells(list(positions.T), numbers, [len(axis) for axis in axes])
        if cells.repeats:
            raise LabelError(
                f"each cell must be given once; got {cells.repeats:,} repeated rows of indices."
                " Add up their counts first (CountTensor.from_frame does)."
            )
        self._store(axes, cells.indices_NM, cells.counts_N)

    @classmethod
    def of_canonical(
        cls,
        axes: Sequence[Axis],
        indices: npt.NDArray[np.int32],
        counts: npt.NDArray[np.int64],
        dropped: Sequence[Dropped] = (),
        part: Part | None = None,
    ) -> CountTensor:
        """Make a tensor of cells known to be sorted, distinct and valid, without checking."""
        tensor = cls.__new__(cls)
        tensor._store(_checked_axes(axes), indices, counts, tuple(dropped), part)
        return tensor

    # -- in ---------------------------------------------------------------------------------------

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        axes: Sequence[str | Axis],
        value: str | EllipsisType | None = ...,
        *,
        repeated: Repeated | None = None,
        missing: Missing = "error",
        bad: Bad = "error",
        bins: Bins | None = None,
        tz: str | None = None,
        ordered: Ordered | None = None,
        min_nonzeros: Mapping[str, int] | None = None,
        top: Mapping[str, int] | None = None,
    ) -> CountTensor:
        """Count the rows of a data frame, or take their counts from a column.

        Parameters
        ----------
        frame
            A pandas, polars or pyarrow table, or any other that narwhals reads.
        axes
            The columns whose labels make up the axes, in order. An axis, such as those of
            ``model.axes_``, stands for its column, and times are cut as its were.
        value
            The column that holds the counts; None counts rows, each row being one event. It may be
            left out where the frame has no column called ``"count"``.
        repeated
            How the counts of rows that share a cell are put together: ``"sum"`` adds them up,
            ``"mean"`` takes their mean, rounded to a whole number, halves up (a `RoundedWarning`
            says how many were not whole), ``"last"`` the last in the order of the rows, ``"max"``
            the largest; ``"error"`` allows one row only. Without a column of counts each row has
            a count of one. None adds up, with a `RepeatedWarning` if values look like ratings.
        missing
            What to do with rows that lack a label (null, or NaN among numbers) or a count:
            ``"error"`` refuses them, ``"drop"`` leaves them out and records how many in `dropped`,
            ``"label"`` gives each axis a last label, ``"(missing)"``, for rows without one; its
            other labels become text. A count that is missing can be refused or left out only.
        bad
            What to do with rows that hold something else than a time, in columns to be cut into
            units, or something else than a whole number of at least 0 in that of the counts:
            ``"error"`` refuses them, ``"drop"`` leaves them out and records how many in `dropped`.
        bins
            Columns of dates or times to cut into units, such as ``{"date": "month"}``: year,
            quarter, month, week, day, hour, or, of a cycle, weekday, hour-of-day, month-of-year.
            A list of units, such as ``{"time": ["day", "weekday"]}``, makes an axis of each:
            time-day and time-weekday. Labels that such bins have are taken as they are.
        tz
            The zone in which times are cut, such as ``"Europe/Berlin"``; None for UTC. Times with a
            zone or an offset are seen from there, others are taken to be by its clock already.
        ordered
            Other axes whose labels have an order: numbers, dates or texts as they are sorted,
            ``["year"]``, or texts in an order given, ``{"size": ["S", "M", "L"]}``.
        min_nonzeros
            Keep labels with at least this number of cells, such as ``{"user": 5}``; applied again
            until nothing changes.
        top
            Keep the labels with the largest totals, such as ``{"word": 5000}``; applied before
            ``min_nonzeros``.

        Returns
        -------
        CountTensor
            With labels in sorted order (ordered categories keep theirs), and in `dropped` what
            was left out.

        Examples
        --------
        >>> import pandas as pd
        >>> events = pd.DataFrame({"who": ["ann", "bob", "ann"], "what": ["call", "mail", "call"]})
        >>> CountTensor.from_frame(events, axes=["who", "what"]).to_frame()
           who  what  count
        0  ann  call      2
        1  bob  mail      1
        """
        from tallyfold.data.events import tensor_from_frame
        from tallyfold.data.request import Request

        request = Request.checked(axes, value, bins, repeated, missing, bad, tz, ordered)
        tensor = tensor_from_frame(frame, request)
        return tensor.filter(min_nonzeros=min_nonzeros, top=top)

    @classmethod
    def from_documents(
        cls,
        frame: Any,
        text: str,
        axes: Sequence[str],
        *,
        explode: str | Sequence[str] = (),
        word_axis: str = "word",
        min_df: int | float = 1,
        max_words: int | None = None,
        stop_words: Literal["english"] | Sequence[str] | None = None,
        vectorizer: Any = None,
        missing: Missing = "error",
        bad: Bad = "error",
        bins: Bins | None = None,
        tz: str | None = None,
        ordered: Ordered | None = None,
        min_nonzeros: Mapping[str, int] | None = None,
        top: Mapping[str, int] | None = None,
    ) -> CountTensor:
        """Count the words of texts, one cell per word and labels of the text.

        Parameters
        ----------
        frame
            One row per document: pandas, polars, pyarrow or any other that narwhals reads.
        text
            The column of texts.
        axes
            The columns that label a document, such as ``["author", "year"]``. The word axis comes
            second, unless its name stands among them.
        explode
            Columns that hold a list of labels, such as the authors: each of them gets the
            document's words.
        word_axis
            What to call the axis of words.
        min_df, max_words, stop_words
            Passed to scikit-learn's ``CountVectorizer`` (``max_words`` as ``max_features``).
        vectorizer
            A vectoriser of your own instead, with scikit-learn's ``fit_transform`` and
            ``get_feature_names_out``.
        missing
            What to do with documents that lack a label, or have an empty list of them: as in
            `from_frame`. A text that is missing can be refused or left out only.
        bad
            What to do with documents with a time that is none: as in `from_frame`.
        bins, tz, ordered, min_nonzeros, top
            As in `from_frame`.

        Examples
        --------
        >>> import pandas as pd
        >>> papers = pd.DataFrame({
        ...     "abstract": ["sparse counts, sparse tensors", "dense tensors"],
        ...     "author": [["ann", "bob"], ["bob"]],
        ...     "year": [2003, 2004],
        ... })
        >>> CountTensor.from_documents(papers, "abstract", ["author", "year"], explode="author")
        CountTensor(author 2 x word 4 x year 2; 8 non-zeros, density 50 %, total 10; counts 1: 75 %, 2: 25 %)
        """  # noqa: E501
        from tallyfold.data.documents import tensor_from_documents, word_counter

        if vectorizer is None:
            vectorizer = word_counter(min_df, max_words, stop_words)
        elif (min_df, max_words, stop_words) != (1, None, None):
            raise ParameterError(
                "`min_df`, `max_words` and `stop_words` are for the built-in vectoriser; give them "
                "to your own instead."
            )
        words: dict[str, Any] = {"explode": explode, "word_axis": word_axis, "counter": vectorizer}
        times: dict[str, Any] = {"bins": bins, "tz": tz, "ordered": ordered}
        rows: dict[str, Any] = {"missing": missing, "bad": bad}
        tensor = tensor_from_documents(frame, text, axes, **words, **times, **rows)
        return tensor.filter(min_nonzeros=min_nonzeros, top=top)

    @classmethod
    def from_array(cls, array: Any, axes: Sequence[Axis | str] | None = None) -> CountTensor:
        """Convert a dense array, a scipy.sparse matrix, a pydata sparse array or a pyttb sptensor.

        Parameters
        ----------
        array
            The counts.
        axes
            Axes, or names for axes labelled 0, 1, 2, ...; ``axis_0``, ``axis_1``, ... when left
            out.

        Examples
        --------
        >>> CountTensor.from_array(np.eye(3, dtype=int), ["row", "column"]).nnz
        3
        """
        from tallyfold.data.events import tensor_from_array

        return tensor_from_array(array, axes)

    # -- what it is -------------------------------------------------------------------------------

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes, in order."""
        return self._axes

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the axes, in order."""
        return tuple(axis.name for axis in self._axes)

    @property
    def indices(self) -> npt.NDArray[np.int32]:
        """The position of each cell on each axis: one row per cell, sorted, read-only."""
        return self._indices

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """The count of each cell, in the order of `indices`, read-only."""
        return self._counts

    @property
    def dropped(self) -> tuple[Dropped, ...]:
        """What was left out when the tensor was made."""
        return self._dropped

    @property
    def part(self) -> Part | None:
        """Which of all cells, zeros included, are here, the rest being hidden; None: all are.

        A model whose zeros are observed takes no hidden cell for a zero.
        """
        return self._part

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of labels on each axis."""
        return tuple(len(axis) for axis in self._axes)

    @property
    def nnz(self) -> int:
        """The number of non-zero cells."""
        return len(self._counts)

    @property
    def size(self) -> int:
        """The number of cells, zero or not."""
        return math.prod(self.shape)

    @property
    def density(self) -> float:
        """The share of cells that are not zero."""
        return self.nnz / self.size if self.size else 0.0

    @property
    def total(self) -> int:
        """The sum of all counts."""
        return int(self._counts.sum())

    @property
    def nbytes(self) -> int:
        """Bytes of memory in cells and labels."""
        labels = sum(int(axis.labels.nbytes) for axis in self._axes)
        return self._indices.nbytes + self._counts.nbytes + labels

    def fingerprint(self) -> str:
        """Return a checksum of the names and labels of axes, the counts, and the part.

        It is the same for the same counts, in whatever order and from whatever file they came; a
        model's `card` has that of the tensor it was fitted to.
        """
        from tallyfold.data.fingerprint import cell_sums, labelled_fingerprint

        return labelled_fingerprint(self, cell_sums(self, by_label=True))

    def axis(self, name: str) -> Axis:
        """Return the axis with this name."""
        return self._axes[self.axis_number(name)]

    def labels(self, name: str) -> list[Any]:
        """Return the labels of an axis as Python's values; `axis` has them as an Arrow array.

        Examples
        --------
        >>> CountTensor.from_array(np.eye(2, dtype=int), ["row", "column"]).labels("row")
        [0, 1]
        """
        return python_values(self.axis(name).labels)

    def axis_number(self, name: str) -> int:
        """Return the position of the axis with this name."""
        if name not in self.names:
            raise LabelError(
                f"there is no axis {name!r}; the tensor has {listing(list(self.names))}."
            )
        return self.names.index(name)

    # -- parts and views --------------------------------------------------------------------------

    def marginal(
        self, axis: str, of: Literal["total", "nonzeros"] = "total"
    ) -> npt.NDArray[np.int64]:
        """Return, for each label of an axis, its total count or its number of cells."""
        if of not in ("total", "nonzeros"):
            raise ParameterError(f"`of` must be 'total' or 'nonzeros'; got {of!r}.")
        number = self.axis_number(axis)
        column, size = self._indices[:, number], self.shape[number]
        if of == "nonzeros":
            return np.bincount(column, minlength=size).astype(np.int64)
        totals = np.zeros(size, np.int64)
        np.add.at(totals, column, self._counts)  # bincount would add in floating point
        return totals

    def collapse(self, *axes: str) -> CountTensor:
        """Add up the counts over the named axes, which then are gone."""
        from tallyfold.data.select import collapsed

        return collapsed(self, axes)

    def sel(self, /, **labels: Any) -> CountTensor:
        """Select by label, axis by axis.

        A list keeps the axis with those labels in that order; a ``slice`` keeps the labels from
        the first to the last named, both included; a single label keeps its cells and takes the
        axis away.

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"who": ["ann", "bob"], "what": ["call", "mail"], "year": [1, 2]})
        >>> tensor = CountTensor.from_frame(frame, axes=["who", "what", "year"])
        >>> tensor.sel(who=["bob"]).shape
        (1, 2, 2)
        >>> tensor.sel(year=2).names
        ('who', 'what')
        """
        from tallyfold.data.select import selected

        return selected(self, labels)

    def filter(
        self,
        *,
        min_nonzeros: Mapping[str, int] | None = None,
        top: Mapping[str, int] | None = None,
    ) -> CountTensor:
        """Keep the busiest labels, and labels with enough cells; see `from_frame`."""
        if not min_nonzeros and not top:
            return self
        from tallyfold.data.select import filtered

        return filtered(self, min_nonzeros=min_nonzeros or {}, top=top or {})

    def compact(self) -> CountTensor:
        """Take away the labels that have no cell."""
        from tallyfold.data.select import compacted

        return compacted(self)

    def with_cells(self, keep: npt.NDArray[Any], part: Part | None = None) -> CountTensor:
        """Return the tensor of some of the non-zero cells (a mask or sorted positions).

        It has the same axes; `part` says which of all cells these are.
        """
        indices, counts = self._indices[keep], self._counts[keep]
        return CountTensor.of_canonical(self._axes, indices, counts, part=part)

    def with_part(self, part: Part | None) -> CountTensor:
        """Return the same counts as those of another part of all cells."""
        own = (self._axes, self._indices, self._counts, self._dropped)
        return CountTensor.of_canonical(*own, part)

    # -- out --------------------------------------------------------------------------------------

    def to_frame(self, kind: FrameKind = "pandas", *, value: str = "count") -> Any:
        """Return one row per cell: a label column per axis, and the counts.

        Parameters
        ----------
        kind
            ``"pandas"``, ``"polars"`` or ``"pyarrow"``.
        value
            What to call the column of counts.
        """
        if value in self.names:
            raise ParameterError(f"`value` must differ from the axes; got {value!r}.")
        columns = [column.dictionary_decode() for column in label_columns(self)]
        table = pa.table([*columns, pa.array(self._counts)], names=[*self.names, value])
        if kind == "pyarrow":
            return table
        if kind == "pandas":
            return table.to_pandas()
        if kind == "polars":
            return imported("polars", "to_frame('polars')").from_arrow(table)
        raise ParameterError(f"`kind` must be 'pandas', 'polars' or 'pyarrow'; got {kind!r}.")

    def to_dense(self, *, most_cells: int = 10_000_000) -> npt.NDArray[np.int64]:
        """Return a dense array; refuses when there are more than ``most_cells`` cells."""
        if self.size > most_cells:
            sizes = " x ".join(f"{size:,}" for size in self.shape)
            raise ShapeError(
                f"a dense array would have {sizes} = {self.size:,} cells "
                f"({self.size * 8 / 2**30:,.1f} GiB); the limit is {most_cells:,}. Select a part "
                "with sel(), or raise most_cells."
            )
        dense = np.zeros(self.shape, np.int64)
        dense[tuple(self._indices.T)] = self._counts
        return dense

    def to_scipy(self) -> Any:
        """Return a ``scipy.sparse.coo_array``; the tensor must have two axes."""
        import scipy.sparse

        if len(self._axes) != 2:
            raise ShapeError(
                f"scipy.sparse holds two axes; the tensor has {len(self._axes)}. Add some up with "
                "collapse(), or use to_sparse()."
            )
        return scipy.sparse.coo_array((self._counts, tuple(self._indices.T)), shape=self.shape)

    def to_sparse(self) -> Any:
        """Return a pydata ``sparse.COO`` array."""
        sparse = imported("sparse", "to_sparse()")
        positions = self._indices.T.astype(np.int64)
        known = {"has_duplicates": False, "sorted": True}
        return sparse.COO(positions, self._counts, shape=self.shape, **known)

    def to_pyttb(self) -> Any:
        """Return a pyttb ``sptensor``."""
        pyttb = imported("pyttb", "to_pyttb()")
        values = self._counts.astype(np.float64)[:, None]
        return pyttb.sptensor(self._indices.astype(np.int64), values, self.shape)

    # -- Python's own protocols -------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CountTensor):
            return NotImplemented
        return (
            self._axes == other._axes
            and np.array_equal(self._counts, other._counts)
            and np.array_equal(self._indices, other._indices)
            and self._part == other._part
        )

    def __hash__(self) -> int:
        return hash((self.names, self.shape, self.nnz, self.total))

    def __reduce__(self) -> tuple[Callable[..., CountTensor], tuple[Any, ...]]:
        parts = (self._axes, self._indices, self._counts, self._dropped, self._part)
        return CountTensor.of_canonical, parts

    __iter__ = None  # having __getitem__ makes no sequence of it

    def __getitem__(self, key: Any) -> CountTensor:
        """Return the part that a fold of `cross_validator` is; scikit-learn asks for it so."""
        from tallyfold.data.cross_validator import part_of

        return part_of(self, key)

    def __repr__(self) -> str:
        return one_line(self)

    def _repr_html_(self) -> str:
        from tallyfold.data.markup import tensor_html

        return tensor_html(self)

    def _store(
        self,
        axes: tuple[Axis, ...],
        indices: npt.NDArray[np.int32],
        counts: npt.NDArray[np.int64],
        dropped: tuple[Dropped, ...] = (),
        part: Part | None = None,
    ) -> None:
        self._axes, self._dropped, self._part = axes, dropped, part
        self._indices = np.asfortranarray(indices, dtype=np.int32)
        self._counts = np.ascontiguousarray(counts, dtype=np.int64)
        self._indices.flags.writeable = self._counts.flags.writeable = False


def _checked_axes(axes: Sequence[Axis]) -> tuple[Axis, ...]:
    axes = tuple(axes)
    if len(axes) < 2:
        raise ShapeError(
            f"a CountTensor has at least two axes; got {len(axes)}. Name another column, "
            "or use a plain value count."
        )
    names = [axis.name for axis in axes]
    if len(set(names)) < len(names):
        raise ShapeError(f"axes must have different names; got {listing(names)}.")
    return axes


def label_columns(tensor: CountTensor) -> list[pa.DictionaryArray]:
    """Return, for each axis, the label of every cell, as Arrow dictionary arrays (no copies)."""
    return [
        pa.DictionaryArray.from_arrays(pa.array(tensor.indices[:, number]), axis.labels)
        for number, axis in enumerate(tensor.axes)
    ]
