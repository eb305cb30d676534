"""How Sphinx makes the site of what docs/build.py wrote: see `make docs`."""

project = "rushlight"
author = "the rushlight authors"
copyright = author
html_theme = "furo"
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_title = "rushlight"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
add_module_names = False
toc_object_entries = False
maximum_signature_line_length = 88
# A type in a signature is linked by its bare name, of which there may be several (fx.Node,
# autograd.graph.Node): the first is as good as none.
suppress_warnings = ["ref.python"]
