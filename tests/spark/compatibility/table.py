"""All changes of the compatibility suite: what the tests play, and `make docs` writes."""

from collections.abc import Iterator

from tests.spark.compatibility.change import Base, Change
from tests.spark.compatibility.frames import DEDUPLICATED, SUBQUERY
from tests.spark.compatibility.groups import (
    DISTINCT,
    GROUPS,
    TWO_KEYS,
)
from tests.spark.compatibility.joins import (
    ABOVE,
    BOTH_SIDES,
    COUNTS,
    INNER,
    INTERVAL,
    ONE_VIEW_TWICE,
    OUTER,
    SELF_JOIN,
    STATELESS,
    UNION,
    WINDOWS_TWICE,
)
from tests.spark.compatibility.nexmark import Q3, Q5, Q7, Q8, Q12, Q20
from tests.spark.compatibility.widths import KEYS, SCHEMAS, WIDTHS
from tests.spark.compatibility.windows import SESSIONS, SLIDING, TUMBLING

BASES: tuple[Base, ...] = (
    *(GROUPS, TWO_KEYS, TUMBLING, SLIDING, SESSIONS, DISTINCT),
    *(INNER, INTERVAL, OUTER, UNION, ABOVE),
    *(ONE_VIEW_TWICE, WINDOWS_TWICE, SELF_JOIN, BOTH_SIDES, COUNTS),
    *(DEDUPLICATED, SUBQUERY, STATELESS),
    *(WIDTHS, KEYS, SCHEMAS),
    *(Q3, Q5, Q7, Q8, Q12, Q20),
)


def every_change() -> Iterator[tuple[Base, Change]]:
    """Yield each change with its base."""
    for base in BASES:
        for change in base.changes:
            yield base, change
