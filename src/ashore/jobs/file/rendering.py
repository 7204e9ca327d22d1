"""What a job file says as a whole, with its defaults and without its secrets.

What it is: `show_settings`, one line for each value.
What it promises: the same lines for job files that say the same; an item of a list is called by
what it is of, so that a new one changes no other's lines. No secret: a value is masked by its name,
variables of the environment are shown by name.
"""

import json
import re
from collections.abc import Iterator

from ashore.jobs.file.model import Job
from ashore.jobs.file.options import SECRET_NAME
from ashore.jobs.file.values import MASK

_ELSEWHERE = {"sql.text", "sql.file"}  # the SQL itself
_NAMES = ("table", "topic", "name")
_NAMED_BY_OTHERS = re.compile(r"(^|\.)(conf|hdfs|options|producer)\.")  # keys that are not ours
_VARIABLES = re.compile(r"(\$\{\w+\})+")


def show_settings(job: Job) -> tuple[tuple[str, str], ...]:
    """Return each key of a job file, with its value as JSON, sorted by their keys."""
    found = _flatten("", job.model_dump(mode="json", by_alias=True))
    return tuple(sorted((key, value) for key, value in found if key not in _ELSEWHERE))


def _flatten(key: str, value: object) -> Iterator[tuple[str, str]]:
    match value:
        case dict():
            for name, each in value.items():
                yield from _flatten(f"{key}.{name}" if key else str(name), each)
        case list() if any(isinstance(each, dict) for each in value):
            for number, each in enumerate(value):
                yield from _flatten(f"{key}[{_name(each) or number}]", each)
        case _:
            yield key, _mask(key, json.dumps(value))


def _name(item: object) -> str:
    found = (item.get(name) for name in _NAMES) if isinstance(item, dict) else iter(())
    return next((str(each) for each in found if each is not None), "")


def _mask(key: str, text: str) -> str:
    bare = text.strip('"')
    is_plain = text == "null" or not bare or _VARIABLES.fullmatch(bare) is not None
    is_secret = _NAMED_BY_OTHERS.search(key) and SECRET_NAME.search(key.casefold())
    return json.dumps(MASK) if is_secret and not is_plain else text
