"""Sphinx settings."""

import sys
from pathlib import Path

from tallyfold.version import __version__

sys.path.insert(0, str(Path(__file__).parent))

project = "tallyfold"
author = "The tallyfold maintainers"
copyright = author
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_design",
    "sphinx-mathjax-offline",
]
exclude_patterns = ["_build"]
autosummary_generate = True
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_type_aliases = {"npt.ArrayLike": "ArrayLike"}
python_maximum_signature_line_length = 80
templates_path = ["_templates"]
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True  # fields of a named tuple are documented once
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

html_theme = "pydata_sphinx_theme"
html_title = "tallyfold"
html_theme_options = {"show_toc_level": 2, "navigation_with_keys": False}
html_sidebars = {"**": []}
html_show_sourcelink = False


def setup(app: object) -> None:
    """Draw the figures of the gallery first."""
    from gallery_figures import on_builder_inited

    app.connect("builder-inited", on_builder_inited)
