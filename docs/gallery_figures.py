"""Draws the figures of the gallery by running the code that stands above each of them."""

import re
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"```python\n(?P<code>.*?)```(?:\n\n!\[[^\]]*\]\((?P<file>[^)]+)\))?", re.DOTALL)


def render(page: Path) -> list[Path]:
    """Run the code of a page, block after block; write each figure where the page looks for it."""
    import numpy as np

    names: dict[str, Any] = {}
    written = []
    for block in BLOCK.finditer(page.read_text("utf-8")):
        exec(compile(block["code"], str(page), "exec"), names)
        if block["file"]:
            target = page.parent / block["file"]
            target.parent.mkdir(parents=True, exist_ok=True)
            np.ravel(names["ax"])[0].figure.savefig(target, dpi=130)
            written.append(target)
    return written


def on_builder_inited(app: Any) -> None:
    """Draw the gallery before Sphinx reads the pages."""
    render(Path(app.srcdir) / "gallery.md")
