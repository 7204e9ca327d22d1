"""Names of time zones, and what to write instead of what is none.

What it is: the check of a zone's name against the tz database.
What it promises: an abbreviation such as `PST`, which means another offset in summer or elsewhere,
is answered with the places that use it.
"""

import re
from zoneinfo import ZoneInfo, available_timezones

from ashore.base.suggest import suggest
from ashore.jobs.file.values import ValueRefused, short

_OTHERWISE = "write a name such as UTC or Asia/Shanghai"
# Abbreviations are in no database of zones: several places use most of them.
_PLACES = {
    "AEDT": "Australia/Sydney",
    "AEST": "Australia/Sydney or Australia/Brisbane",
    "AKST": "America/Anchorage",
    "BRT": "America/Sao_Paulo",
    "BST": "Europe/London",
    "CAT": "Africa/Maputo",
    "CDT": "America/Chicago",
    "CEST": "Europe/Berlin",
    "CST": "America/Chicago or Asia/Shanghai",
    "EAT": "Africa/Nairobi",
    "EDT": "America/New_York",
    "EEST": "Europe/Athens",
    "HKT": "Asia/Hong_Kong",
    "IST": "Asia/Kolkata, Asia/Jerusalem or Europe/Dublin",
    "JST": "Asia/Tokyo",
    "KST": "Asia/Seoul",
    "MDT": "America/Denver",
    "MSK": "Europe/Moscow",
    "NZDT": "Pacific/Auckland",
    "NZST": "Pacific/Auckland",
    "PDT": "America/Los_Angeles",
    "PHT": "Asia/Manila",
    "PST": "America/Los_Angeles",
    "SAST": "Africa/Johannesburg",
    "SGT": "Asia/Singapore",
    "WIB": "Asia/Jakarta",
}
_OFFSET = re.compile(r"(?:UTC|GMT)?\s*([+-])0?(\d{1,2})(?::?(\d\d))?", re.IGNORECASE)
_WEST_MAX, _EAST_MAX = 12, 14  # hours


def zone_name(text: str) -> str:
    """Return the name of a zone. Raises Refused."""
    try:
        ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        raise ValueRefused(f"{short(text)!r} is not a time zone", _instead(text)) from None
    return text


def _instead(text: str) -> str:
    places = _PLACES.get(text.upper())
    if places:
        return f"write the name of a place that uses it: {places}"
    offset = _OFFSET.fullmatch(text.strip())
    if offset:
        return _instead_of_offset(offset[1], int(offset[2]), offset[3] or "00")
    known = sorted(available_timezones())
    if "/" not in text:
        cities = {each.rpartition("/")[2]: each for each in known if "/" in each}
        city = cities.get(text.strip().title().replace(" ", "_"))
        if city:
            return f"did you mean `{city}`?"
    if re.fullmatch(r"[A-Z]{2,4}", text):  # nothing is near an abbreviation but by accident
        return _OTHERWISE
    return suggest(text, known, _OTHERWISE)


def _instead_of_offset(sign: str, hours: int, minutes: str) -> str:
    is_east = sign == "+"
    if minutes != "00" or hours > (_EAST_MAX if is_east else _WEST_MAX):
        return f"offsets are not zones: {_OTHERWISE}"
    if hours == 0:
        return "write UTC"
    # POSIX counts hours from the zone to UTC: the signs of these names are turned round.
    return f"write Etc/GMT{'-' if is_east else '+'}{hours}, or the name of a place there"
