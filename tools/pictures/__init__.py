"""The pictures of the documentation, written into docs/images: a part of what `make docs` runs.

What it is: a picture is a value, made of the shapes of `shapes`; each stands in a module of its own
and is true to the code that its docstring names.
What it promises: the same picture gives the same bytes.
What it must not know: the pages that show a picture, and what they say beside it.
"""
