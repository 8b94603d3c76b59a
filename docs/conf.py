"""Settings of Sphinx. The API is documented from the installed amofa: the folder in the checkout is not compiled."""

import logging
import re
import warnings

import amofa

logging.getLogger("amofa").setLevel(logging.WARNING)  # the steps of the examples' searches are no news
# Pictures are drawn into files; of nothing else may the examples warn.
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

project = "amofa"
author = "The amofa developers"
project_copyright = author
version = release = amofa.__version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "myst_parser", "sphinx_gallery.gen_gallery"]
exclude_patterns = ["_build", "gallery"]  # the gallery's pages are made from there, in auto_gallery

myst_heading_anchors = 4

# Single backticks in docstrings are names, or just set in type where there is no such name.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings have types, with shapes
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
add_module_names = False

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": "/plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 5,
    "remove_config_comments": True,
}

html_theme = "furo"
html_title = f"amofa {release}"
html_copy_source = False


def finish_docstring(app, what, name, obj, options, lines):
    """What is right in one docstring, but not on a page with others.

    Types such as "(n_components_,) array" have no links in them, whatever reStructuredText says; and references are
    numbered through the page, since each docstring has its own [1].
    """
    for i, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...")):
            continue
        line = re.sub(r"(?<![\\`\w])(\w+)_(?![`\w])", r"\1\_", line)
        line = re.sub(r"\[(\d+)\]_", rf"[#{name}-\1]_", line)
        lines[i] = re.sub(r"^(\s*\.\. )\[(\d+)\]", rf"\1[#{name}-\2]", line)


def setup(app):
    # After napoleon, whose priority is 500.
    app.connect("autodoc-process-docstring", finish_docstring, priority=600)
