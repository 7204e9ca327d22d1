"""The known name that a mistyped name most likely means.

What it promises: pure; the same name and the same known names give the same suggestion.
"""

from collections.abc import Iterable
from difflib import get_close_matches

_LIKENESS_MIN = 0.5
_LIKENESS_ALONE = 0.6  # below it a name has to begin alike: `tz` may be `ts`, `base` is no `lake`


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that `name` was most likely meant to be; case does not count."""
    by_folded = {each.casefold(): each for each in known}
    folded = name.casefold()
    found = get_close_matches(folded, by_folded, n=1, cutoff=_LIKENESS_ALONE)
    if not found:
        alike = [each for each in by_folded if each[:1] == folded[:1]]
        found = get_close_matches(folded, alike, n=1, cutoff=_LIKENESS_MIN)
    return by_folded[found[0]] if found else None


def suggest(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return a hint that asks for the known name nearest to `name`; `otherwise` if none is near."""
    near = nearest(name, known)
    return f"did you mean `{near}`?" if near else otherwise
