"""A verdict in a few words, for a message.

What it is: `describe_verdict`.
What it promises: pure. What is kept as it is is left out.
"""

from collections.abc import Iterator

from ashore.plans.change.verdicts import OperatorVerdict, QueryVerdict, StateVerdict

SHOWN_MAX = 6  # columns of an operator


def describe_verdict(verdict: QueryVerdict) -> Iterator[str]:
    """Yield what is said of the query, its sources, and each operator that cannot continue."""
    yield from verdict.why
    for source in verdict.sources:
        if source.verdict is not StateVerdict.FULL:
            yield f"`{source.name}` is {source.verdict} ({'; '.join(source.why)})"
    for each in verdict.operators:
        if each.verdict is not StateVerdict.FULL:
            reasons = [*each.why, *_describe_columns(each)]
            yield f"`{each.name}` is {each.verdict}" + (
                f" ({'; '.join(reasons)})" if reasons else ""
            )


def _describe_columns(operator: OperatorVerdict) -> list[str]:
    """Return the columns that change, the worst first."""
    changed = [each for each in operator.columns if each.verdict is not StateVerdict.FULL]
    changed.sort(key=lambda each: -each.verdict.rank)
    shown = [f"{each.verdict} {each.name}" for each in changed[:SHOWN_MAX]]
    more = len(changed) - SHOWN_MAX
    return [*shown, *([f"{more} more"] if more > 0 else [])]
