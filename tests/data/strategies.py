"""Hypothesis strategies for tensors."""

import datetime as dt

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from tallyfold.data.axis import Axis
from tallyfold.data.tensor import CountTensor

texts = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n\t,;\"'"), max_size=8
)
LABELS = {
    "text": (texts, pa.large_string()),
    "int": (st.integers(-(2**40), 2**40), pa.int64()),
    "small": (st.integers(0, 200), pa.uint8()),
    "float": (st.floats(allow_nan=False, allow_infinity=False), pa.float64()),
    "date": (st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)), pa.date32()),
    "time": (
        st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1)),
        pa.timestamp("us"),
    ),
    "bool": (st.booleans(), pa.bool_()),
}


@st.composite
def axes(draw, name):
    values, kind = LABELS[draw(st.sampled_from(sorted(LABELS)))]
    size = 2 if pa.types.is_boolean(kind) else 5
    labels = draw(st.lists(values, min_size=1, max_size=size, unique_by=lambda v: v))
    return Axis(name, pa.array(labels, kind))


@st.composite
def tensors(draw, max_axes=4, min_nnz=1):
    n_axes = draw(st.integers(2, max_axes))
    built = [draw(axes(f"axis {number}")) for number in range(n_axes)]
    cell = st.tuples(*(st.integers(0, len(axis) - 1) for axis in built))
    cells = draw(st.lists(cell, min_size=min_nnz, max_size=12, unique=True))
    counts = draw(st.lists(st.integers(1, 2**53 - 1), min_size=len(cells), max_size=len(cells)))
    indices = np.array(cells, dtype=np.int32).reshape(-1, n_axes)
    return CountTensor(built, indices, np.array(counts, dtype=np.int64))
