"""Pictures as SVG.

What it is: `render`, one template for all pictures.
What it promises: light or dark as the reader's page is; a background of its own, so that a picture
can be read also where page and browser disagree about that.
What it must not know: what a picture shows.
"""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from .shapes import Box, Line, Picture, Text

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def render(picture: Picture) -> str:
    """Return a picture as an SVG document."""
    template = _TEMPLATES.get_template("picture.svg.jinja")
    kinds = {Box: "box", Line: "line", Text: "text"}
    shapes = [(kinds[type(each)], each) for each in picture.shapes]
    return template.render(picture=picture, shapes=shapes)


def number(value: float) -> str:
    """Return a number as SVG has it, without digits that say nothing."""
    return f"{value:.1f}".removesuffix(".0")


_TEMPLATES.filters["number"] = number
