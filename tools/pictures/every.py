"""Every picture there is."""

from pathlib import Path

from . import crash_points, fencing, landing, sealing, sql_job
from .live import record_demo, record_run
from .render import render, render_recording

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
    drawn = {f"{picture.name}.svg": render(picture) for picture in PICTURES}
    played = {f"{each.name}.svg": render_recording(each) for each in (record_demo(), record_run())}
    return drawn | played
