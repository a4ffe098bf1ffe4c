"""Sphinx settings: plain Markdown pages and the public docstrings."""

from importlib import metadata

project = "draftproof"
author = "the draftproof developers"
release = metadata.version("draftproof")
extensions = ["myst_parser", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "examples"]
html_theme = "furo"
html_title = "draftproof"
# Pages link to files of the repository that are not part of the site.
suppress_warnings = ["myst.xref_missing"]
