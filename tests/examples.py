"""How many examples a property is tried with: few in `make check`, many in `make test`."""

from hypothesis import settings

QUICK = "quick"  # the profile of `make check`
QUICK_EXAMPLES = 10

settings.register_profile(QUICK, max_examples=QUICK_EXAMPLES)


def examples(number: int) -> int:
    """Return so many, for `max_examples`; in `make check` not more than ten."""
    is_quick = settings.get_current_profile_name() == QUICK
    return min(number, QUICK_EXAMPLES) if is_quick else number
