"""`explore`: the explorer page inside a notebook, in a browser, or in a file."""

from __future__ import annotations

import html
import os
import tempfile
import webbrowser
from collections.abc import Callable
from pathlib import Path

from tallyfold.data.formats.writing import written_whole
from tallyfold.data.tensor import CountTensor
from tallyfold.models.base import CountModel
from tallyfold.report.explorer.page import checked_page, checked_target

HEIGHT = 760
"""Of the page inside a notebook, in pixels."""


class Explorer:
    """The explorer page of a model.

    In a notebook it is shown where it stands, in a frame of its own: the page's script runs there
    and reaches neither the notebook nor the network, but tables can be saved. Elsewhere, `open` and
    `save` it.

    Attributes
    ----------
    page
        The whole page, as HTML.
    """

    def __init__(self, page: str) -> None:
        self.page = page

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file that ends in ``.html``, whole or not at all."""
        file = checked_target(path)
        with written_whole(file) as target:
            target.write_text(self.page, encoding="utf-8", errors="backslashreplace", newline="\n")
        return file

    def open(self) -> Path:
        """Write the page to a temporary file and open it in a browser."""
        file = self.save(Path(tempfile.mkdtemp(prefix="tallyfold-")) / "explorer.html")
        webbrowser.open(file.as_uri())
        return file

    def _repr_html_(self) -> str:
        safe = html.escape(self.page.encode("utf-8", "backslashreplace").decode())
        return (
            f'<iframe sandbox="allow-scripts allow-downloads" srcdoc="{safe}" '
            f'title="tallyfold explorer" style="width:100%;height:{HEIGHT}px;border:0"></iframe>'
        )

    def __repr__(self) -> str:
        size = len(self.page) / 1000
        return f"Explorer({size:,.0f} kB): shown in notebooks; .open() or .save('x.html') elsewhere"


def explore(
    model: CountModel,
    *,
    test: CountTensor | None = None,
    train: CountTensor | None = None,
    title: str | None = None,
    announce: Callable[[str], None] | None = None,
) -> Explorer:
    """Make a page to explore a fitted model, shown inside a notebook.

    Parameters
    ----------
    model, test, train, title, announce
        As in `write_report`.

    Examples
    --------
    >>> import tallyfold as tf
    >>> tensor = tf.simulate((30, 20, 10), n_components=2, density=0.3).tensor
    >>> tf.BPTF(n_components=2, max_iter=10).fit(tensor).explore()
    Explorer(... kB): shown in notebooks; .open() or .save('x.html') elsewhere
    """
    return Explorer(checked_page(model, test, train, title, announce))
