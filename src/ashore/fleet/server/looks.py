"""Which requests change nothing although they are no GET.

What it must not know: who asks.
"""

import re

from ashore.fleet.commands import COMMANDS

_LOOKS = {each.route for each in COMMANDS if not each.changes}
_OPERATIONS = re.compile(r"/api/(?:jobs/[^/]+/)?operations/(.+)")


def is_look(path: str) -> bool:
    """Return whether a path is that of a command that changes nothing."""
    found = _OPERATIONS.fullmatch(path)
    return found is not None and found[1] in _LOOKS
