"""Templates, and how a page writes numbers and times.

What it promises: everything that is not marked as safe is escaped; pictures of `drawing` are marked
where they are shown. A page may load what this server sends, and nothing else.
"""

import re
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ashore.base.units import format_duration, format_size, format_time
from ashore.fleet.server.pages import log_view
from ashore.topics.decode.reasons import describe

HERE = Path(__file__).parent
STATIC = HERE / "static"
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
UNKNOWN = "not known"
VALUE_MAX = 400
# A word alone says the state; the sign beside it is for those who look quickly.
SIGNS = {
    "running": "\N{BLACK RIGHT-POINTING TRIANGLE}",
    "idle": "\N{BLACK CIRCLE}",
    "retrying": "\N{CLOCKWISE OPEN CIRCLE ARROW}",
    "stuck": "\N{BLACK UP-POINTING TRIANGLE}",
    "stopped": "\N{BLACK SQUARE}",
    "failed": "\N{MULTIPLICATION SIGN}",
    "never started": "\N{WHITE CIRCLE}",
    "starting": "\N{WHITE RIGHT-POINTING TRIANGLE}",
    "stopping": "\N{WHITE SQUARE}",
    "paused": "\N{DOUBLE VERTICAL LINE}",
    "waiting": "\N{WHITE CIRCLE}",
    "backing off": "\N{CLOCKWISE OPEN CIRCLE ARROW}",
    "needs decision": "\N{WARNING SIGN}",
    "invalid": "\N{MULTIPLICATION SIGN}",
    "fenced": "\N{MULTIPLICATION SIGN}",
    "missing": "\N{MULTIPLICATION SIGN}",
}


def count(number: float | None) -> str:
    """Return a whole number with separators."""
    return UNKNOWN if number is None else f"{number:,.0f}"


def age(milliseconds: float | None) -> str:
    """Return a duration; None: not known."""
    return UNKNOWN if milliseconds is None else format_duration(max(0, milliseconds))


def moment(now_ms: int | None) -> str:
    """Return a time to the second, with its time zone: UTC."""
    return UNKNOWN if now_ms is None else format_time(now_ms)[:19].replace("T", " ") + " UTC"


def bytes_text(value: bytes | None) -> str:
    """Return the bytes of a record as a person may read them; cut where long."""
    if value is None:
        return "none"
    cut = value[:VALUE_MAX]
    text = cut.decode("utf-8", "backslashreplace")
    return text + (f" ... {len(value):,} bytes in all" if len(value) > VALUE_MAX else "")


def coded(text: str) -> Markup:
    """Return a message, with what stands between backticks as code."""
    parts = re.split(r"`([^`\n]+)`", text)  # every second one stood between backticks
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(each) if at % 2 else each for at, each in enumerate(parts))


_ENVIRONMENT = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters |= {
    "count": count,
    "described": describe,
    "entry_text": log_view.describe_entry,
    "closing_text": log_view.describe_closing,
    "age": age,
    "bytes_text": bytes_text,
    "coded": coded,
    "size": lambda size: UNKNOWN if size is None else format_size(size),
    "moment": moment,
    "picture": Markup,
    "sign": lambda state: SIGNS.get(state, "?"),
    "css": lambda state: str(state).replace(" ", "-"),
}


def render(template: str, **values: Any) -> str:
    """Return the HTML of a page."""
    return _ENVIRONMENT.get_template(template).render(**values)
