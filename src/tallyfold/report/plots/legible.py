"""Labels as text that can be drawn: not too long, not taken for maths, in a font that has it."""

from __future__ import annotations

import logging
import textwrap
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from typing import Any

from tallyfold.posterior.component_names import in_words

_log = logging.getLogger("tallyfold")

LONGEST = 40
BOX = "\N{WHITE SQUARE}"

FURTHER_FONTS = (
    "DejaVu Sans",
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Source Han Sans",
    "Hiragino Sans",
    "PingFang SC",
    "Yu Gothic",
    "Microsoft YaHei",
    "Malgun Gothic",
    "WenQuanYi Zen Hei",
    "Arial Unicode MS",
    "Noto Sans",
    "Noto Sans Devanagari",
    "Noto Sans Thai",
    "Nirmala UI",
    "Segoe UI Emoji",
    "Noto Emoji",
    "Symbola",
)
"""The font that comes with matplotlib, and some that are often there and have what others lack."""


def legible(labels: Iterable[Any], longest: int = LONGEST) -> tuple[list[str], dict[str, Any]]:
    r"""Return labels as text, and the properties to draw them with.

    Control characters are spelt out, long labels lose their middle, and ``$`` is a dollar.
    Characters that the font lacks are drawn in another one that is installed and has them; where
    none has, a box stands in their place, as matplotlib would draw it, and a log message says so.

    Examples
    --------
    >>> legible(["two\nlines", "a label that is long, longer and then a good deal longer"], 30)[0]
    ['two\\nlines', 'a label that is lo…deal longer']
    """
    import matplotlib

    texts = [_cut(_visible(label), longest) for label in labels]
    how: dict[str, Any] = {"parse_math": False, "usetex": False}
    needed = frozenset(character for character in "".join(texts) if ord(character) > 126)
    if needed:
        fonts = _fonts(tuple(matplotlib.rcParams["font.family"]))
        how["fontfamily"] = [*fonts]
        missing = needed.difference(*fonts.values())
        texts = [text.translate(dict.fromkeys(map(ord, missing), BOX)) for text in texts]
        _tell_missing(missing)
    return texts, how


def wrapped(title: str, beside: Iterable[Any]) -> str:
    """Break a title into lines that fit above bars with long labels beside them."""
    widest = max((min(len(in_words(label)), LONGEST) for label in beside), default=0)
    return textwrap.fill(title, max(30, 72 - widest))


def percent(share: float) -> str:
    """Write a share in per cent, with as many digits as it needs."""
    return f"{100 * share:.2g} %" if share < 0.995 else "100 %"


def _visible(label: Any) -> str:
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in in_words(label)
    )


def _cut(text: str, longest: int) -> str:
    """Cut the middle out: the ends are what tells paths and names apart."""
    if len(text) <= longest:
        return text
    tail = (longest - 1) * 2 // 5
    return f"{text[: longest - 1 - tail]}…{text[-tail:]}"


@cache
def _fonts(family: tuple[str, ...]) -> dict[str, set[str]]:
    """Return the characters of the fonts that are installed, those of the style first."""
    from matplotlib import font_manager

    found = {}
    for font in dict.fromkeys([*family, *FURTHER_FONTS]):
        with suppress(ValueError):
            properties = font_manager.FontProperties(family=[font])
            path = font_manager.findfont(properties, fallback_to_default=False)
            found[font] = {*map(chr, font_manager.get_font(path).get_charmap())}
    return found


@cache
def _tell_missing(missing: frozenset[str]) -> None:
    if not missing:
        return
    shown = " ".join(f"U+{ord(character):04X}" for character in sorted(missing)[:5])
    more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
    _log.warning(
        "no installed font has %s%s: boxes stand in their place. Install one that has, such as "
        "Noto Sans CJK, or name it in matplotlib.rcParams['font.family'].",
        shown,
        more,
    )
