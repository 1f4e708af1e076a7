"""``tallyfold describe``: what is in a file of counts, or in the folder of a model."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.filesize import decimal

from tallyfold.cli import options
from tallyfold.cli.options import option
from tallyfold.cli.terminal import console, print_json, show_lines, show_table
from tallyfold.errors import printable

if TYPE_CHECKING:
    from rich.console import Console

    from tallyfold.data.axis import Axis
    from tallyfold.data.tensor import CountTensor

BAR_WIDTH = 30

UNORDERED = "looks like times; --ordered {0} says so{1}"
"""What to do with labels that look like times and have no order."""
ZEROS = {
    "missing": "values like ratings: cells without a row are unknown, unless --zeros observed",
    "observed": "values not like ratings: cells without a row are zeros, unless --zeros missing",
}
"""What ``--zeros auto`` takes empty cells for, in words."""

Table = tuple[str, Sequence[str], Sequence[Sequence[str]]]
"""A title, heads and rows."""


@options.with_reading(*options.READING)
def describe(
    files: options.Files,
    reading: options.Reading,
    busiest: Annotated[
        int, option("N", "How many of the busiest labels to show per axis.", min=0)
    ] = 5,
    as_json: options.AsJson = False,
) -> None:
    """Describe the counts in a file: sizes, density, values, busiest labels.

    Of the folder of a fitted model: its card, which says what it is, what it was
    fitted to and how, and its scores on cells that fit --holdout held out.
    Reads Parquet, CSV, TSV and JSON lines (also .gz and .zst), FROSTT .tns
    and .npz. What a filter or a rule left out is listed. The time and memory
    of a fit are an order of magnitude, for one core.

    \b
    [bold]Examples[/]
      tallyfold describe events.parquet --axes author,word,year
      tallyfold describe a.csv --axes user,item,day --value n --bin day=month
      tallyfold describe 'logs/*.jsonl' --axes user,page --min-nonzeros user=5
      tallyfold describe counts.npz --json
      tallyfold describe model
      zcat events.csv.gz | tallyfold describe - --axes user,page
    """  # noqa: D301
    if len(files) == 1 and (Path(files[0]) / "model.json").exists():
        _describe_model(files[0], as_json)
        return
    facts = facts_of(reading.counts(files), busiest)
    if as_json:
        print_json(facts)
    else:
        show(facts, console())


def _describe_model(folder: str, as_json: bool) -> None:
    """Say what a saved model is, and how it was fitted."""
    from tallyfold.models.storage import load

    card = load(folder).card()
    if as_json:
        print_json(card.facts)
    else:
        show_lines(str(card))


def facts_of(tensor: "CountTensor", busiest: int = 5) -> dict[str, Any]:
    """Return what there is to say of a tensor, as plain values that JSON can hold."""
    import numpy as np

    from tallyfold.models.complete_logs import zeros_of
    from tallyfold.models.fit_cost import fit_cost

    values, cells = np.unique(tensor.counts, return_counts=True)
    zeros = zeros_of(tensor) if tensor.nnz else None
    goes_on = any(axis.order and axis.order.kind != "cyclic" for axis in tensor.axes)
    return {
        "shape": list(tensor.shape),
        "cells": tensor.nnz,
        "density": float(tensor.density),
        "total": int(tensor.total),
        "mean": float(tensor.total / tensor.nnz) if tensor.nnz else None,
        "largest": int(values[-1]) if len(values) else None,
        "most_frequent": int(values[np.argmax(cells)]) if len(values) else None,
        "zeros": zeros,
        "histogram": _histogram(values.tolist(), cells.tolist()),
        "axes": [_axis_facts(tensor, position, busiest) for position in range(len(tensor.axes))],
        "dropped": [str(record) for record in tensor.dropped],
        "bytes": tensor.nbytes,
        "fingerprint": tensor.fingerprint(),
        "fit": {
            "model": "vae-bptf",
            "components": 10,
            **fit_cost(tensor, 10)._asdict(),
            "remembers": zeros == "observed" and goes_on,
        },
    }


def _axis_facts(tensor: "CountTensor", position: int, busiest: int) -> dict[str, Any]:
    import numpy as np

    from tallyfold.data.axis_course import order_words
    from tallyfold.posterior.component_names import TIMES, kind_of

    axis = tensor.axes[position]
    cells_D = tensor.marginal(axis.name, of="nonzeros")
    totals_D = tensor.marginal(axis.name)
    first = np.argsort(-totals_D, kind="stable")[:busiest]
    return {
        "name": axis.name,
        "size": len(axis),
        "type": str(axis.labels.type).removeprefix("large_"),
        "order": order_words(axis) or None,
        "times": axis.order is None and kind_of(axis.labels) == TIMES,
        "alike": _alike(axis),
        "one_cell": int((cells_D == 1).sum()),
        "no_cell": int((cells_D == 0).sum()),
        "busiest": [
            {"label": axis.label(d), "total": int(totals_D[d]), "cells": int(cells_D[d])}
            for d in first.tolist()
        ],
    }


def _alike(axis: "Axis") -> list[str]:
    """Return the texts that differ from an earlier label in spaces or in case alone."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_large_string(axis.labels.type):
        return []
    plain = pc.utf8_lower(pc.utf8_trim_whitespace(axis.labels)).dictionary_encode().indices
    _, first = np.unique(plain.to_numpy(), return_index=True)
    again_D = np.ones(len(axis), bool)
    again_D[first] = False
    return list(axis.labels.filter(pa.array(again_D)).to_pylist())


def _histogram(values: list[int], cells: list[int]) -> list[dict[str, int]]:
    """Count cells by value: up to ten values one by one, otherwise by decades from six on."""
    if len(values) <= 10:
        edges = [(value, value) for value in values]
    else:
        edges = [(value, value) for value in range(1, 6)] + [(6, 10)]
        while edges[-1][1] < values[-1]:
            edges.append((edges[-1][1] + 1, edges[-1][1] * 10))
    pairs = list(zip(values, cells, strict=True))
    sums = [sum(n for value, n in pairs if low <= value <= high) for low, high in edges]
    return [
        {"from": low, "to": high, "cells": n} for (low, high), n in zip(edges, sums, strict=True)
    ]


def show(facts: dict[str, Any], out: "Console") -> None:
    """Print the facts for a person."""
    from tallyfold.data.summary import percent
    from tallyfold.inference.fit.progress import duration

    names = " x ".join(printable(axis["name"]) for axis in facts["axes"])
    sizes = " x ".join(f"{axis['size']:,}" for axis in facts["axes"])
    out.print(f"{names}: {sizes}", style="bold", markup=False)
    out.print(f"{facts['cells']:,} non-zero cells, {percent(facts['density'])} of all")
    out.print(f"total {facts['total']:,}, {decimal(facts['bytes'])} in memory")
    if facts["cells"]:
        out.print(
            f"mean count {facts['mean']:.3g}, most frequent {facts['most_frequent']:,}, "
            f"largest {facts['largest']:,}"
        )
        out.print(ZEROS[facts["zeros"]])
        fit = facts["fit"]
        least, most = (duration(fit[f"{end}_seconds"]) for end in ("least", "most"))
        what = f"a fit of {fit['model']} with {fit['components']} components"
        past = ", and longer with the memory of periods" if fit["remembers"] else ""
        out.print(f"{what}: roughly {least} to {most}{past}, {decimal(fit['bytes'])}")
    for axis in facts["axes"]:
        name = printable(axis["name"])
        if axis["order"] is not None:
            out.print(f"{name}: {printable(axis['order'])}", markup=False)
        if axis["times"]:
            cut = "" if axis["type"].startswith("int") else f", --bin {name}=month cuts them"
            out.print(f"{name}: {UNORDERED.format(name, cut)}", markup=False)
        if axis["alike"]:
            number, listed = len(axis["alike"]), ", ".join(map(repr, axis["alike"][:3]))
            labels = "label differs from another" if number == 1 else "labels differ from others"
            out.print(
                f"{name}: {number:,} {labels} in spaces or case alone: {listed}", markup=False
            )
    for line in facts["dropped"]:
        out.print(f"left out: {printable(line)}", markup=False)
    out.print(f"fingerprint {facts['fingerprint']}")
    tables = [_histogram_table(facts, out.options.ascii_only), _axes_table(facts)]
    tables += [_busiest_table(axis) for axis in facts["axes"] if axis["busiest"]]
    for each in tables:
        out.print()
        show_table(out, *each)


def _histogram_table(facts: dict[str, Any], ascii_only: bool) -> Table:
    from tallyfold.data.summary import percent

    most = max((row["cells"] for row in facts["histogram"]), default=1) or 1
    rows = []
    for low, high, cells in (row.values() for row in facts["histogram"]):
        values = f"{low:,}" if low == high else f"{low:,}–{high:,}"
        bar = _bar(cells / most, ascii_only)
        rows.append((values, f"{cells:,}", percent(cells / facts["cells"]), bar))
    return "Values", ["count>", "cells>", "share>", ""], rows


def _bar(share: float, ascii_only: bool) -> str:
    """Return a bar of eighth blocks; anything above nothing shows at least one eighth."""
    if ascii_only:
        return "#" * math.ceil(share * BAR_WIDTH)
    eighths = max(round(share * BAR_WIDTH * 8), 1) if share > 0 else 0
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _axes_table(facts: dict[str, Any]) -> Table:
    rows = []
    for axis in facts["axes"]:
        labels, one, none = (f"{axis[name]:,}" for name in ("size", "one_cell", "no_cell"))
        kind = printable((axis["order"] or axis["type"]).partition(",")[0])
        rows.append((printable(axis["name"]), labels, kind, one, none))
    return "Axes", ["axis", "labels>", "type or order", "with one cell>", "with none>"], rows


def _busiest_table(axis: dict[str, Any]) -> Table:
    rows = [
        (printable(row["label"]), f"{row['total']:,}", f"{row['cells']:,}")
        for row in axis["busiest"]
    ]
    return f"Busiest: {printable(axis['name'])}", ["label", "total>", "cells>"], rows
