"""Settings of Sphinx. The API is documented from the installed amofa, since the checkout has no compiled modules."""

import logging
import re
import warnings

import amofa

logging.getLogger("amofa").setLevel(logging.WARNING)  # no log of the searches in the examples
# Pictures are drawn into files. The examples give no other warning.
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

project = "amofa"
author = "The amofa developers"
project_copyright = author
version = release = amofa.__version__

extensions = ["sphinx.ext.autodoc", "numpydoc", "myst_parser", "sphinx_gallery.gen_gallery"]
exclude_patterns = ["_build", "gallery"]  # the gallery's pages are made from there, in auto_gallery

myst_heading_anchors = 4

# Single backticks in docstrings are names, or code if there is no such name.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings have types, with shapes
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
add_module_names = False

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": "/plot_",
    "capture_repr": (),
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "remove_config_comments": True,
}

html_theme = "furo"
html_title = f"amofa {release}"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["amofa.css"]


def finish_docstring(app, what, name, obj, options, lines):
    """Escape what reStructuredText would misread.

    Types such as "(n_components_,) array" contain no links, and the initials of authors in references do not number a
    list.
    """
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            line = re.sub(r"(?<![\\`\w])(\w+)_(?![`\w])", r"\1\_", line)
            lines[i] = re.sub(r"^(\s*\.\. \[\S+\] )([A-Z]\. )", r"\1\\\2", line)


def setup(app):
    # After numpydoc, whose priority is 500.
    app.connect("autodoc-process-docstring", finish_docstring, priority=600)
