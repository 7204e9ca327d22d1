"""Every picture there is."""

from pathlib import Path

from . import crash_points, fencing, landing, sealing, sql_job
from .render import render

TARGET = Path(__file__).parents[2] / "docs" / "images"
PICTURES = (
    landing.PICTURE,
    crash_points.PICTURE,
    sealing.PICTURE,
    fencing.PICTURE,
    sql_job.PICTURE,
)


def render_files() -> dict[str, str]:
    """Return name and content of each file of docs/images."""
    return {f"{picture.name}.svg": render(picture) for picture in PICTURES}
