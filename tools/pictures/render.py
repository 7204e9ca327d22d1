"""Pictures as SVG.

What it is: `render`, one template for all pictures, and `render_recording`.
What it promises: light or dark as the reader's page is; a background of its own, so that a picture
can be read also where page and browser disagree about that.
What it must not know: what a picture shows.
"""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from .live import LINE_PX, MARGIN_PX, Recording
from .shapes import Box, Line, Picture, Text

STILL_S = 3  # how long a recording shows each of its stills
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


def render_recording(recording: Recording) -> str:
    """Return a recording as an SVG document that plays by itself."""
    template = _TEMPLATES.get_template("recording.svg.jinja")
    return template.render(
        recording=recording,
        seconds=STILL_S,
        share=number(100 / len(recording.stills)),
        margin=MARGIN_PX,
        line=LINE_PX,
        bar_px=recording.width - 2 * MARGIN_PX,
        bar_y=recording.height - 2 * MARGIN_PX,
    )


def number(value: float) -> str:
    """Return a number as SVG has it, without digits that say nothing."""
    return f"{value:.1f}".removesuffix(".0")


_TEMPLATES.filters["number"] = number
