"""Expressions down to the columns of sources, as a table in which each is there once.

What it is: `Term`, one expression over others of the table, and `Terms`, the table while it grows.
What it promises: pure. What a query calls its columns, subqueries and views is in no term, but for
the names of what a generator makes; nor are the ids that Spark gives. So two plans that compute the
same have the same terms. A term comes after
those that it is made of: one pass from the start can compute anything from the leaves up, and none
is ever computed twice, however often views build upon each other.

Not in a term: what Spark does not write of an expression, as the body of a function in Python or
Scala, or the plan of a subquery; and what a view of Ashore makes of a record, whose columns are
those of its source.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from ashore.base.codec import added
from ashore.plans.windows import Window

UNITED = "Union"  # the name of a call: a column of a union, over those of its inputs
NULLABLE = "NullExtended"  # of a call: a column of an outer join, NULL where no row matches
OF_BRANCH = "OfBranch"  # of a call: what one input of a join computes of no column of a source
BY_GROUP = "ByGroup"  # of a call: what an aggregate over another one computes, and its keys
# Functions that are another value at each run.
RANDOM = {"MonotonicallyIncreasingID", "RandStr", "Rand", "Randn", "Shuffle", "Uniform", "Uuid"}


class TermKind(StrEnum):
    """What an expression is."""

    COLUMN = "column"  # of a source; of Kafka's: of the record that its value holds
    RECORD = "record"  # of Kafka, before it is decoded: its value, key, topic ...
    MADE = (
        "made"  # a column that an operator makes: of a generator, or of what Spark does not write
    )
    LITERAL = "literal"
    NULL = "null"
    FIELD = "field"  # of a struct
    CALL = "call"  # of a function, as Spark's class of it is called
    AGGREGATE = "aggregate"  # the same over the rows of a group
    WINDOW = "window"


@dataclass(frozen=True, slots=True)
class Term:
    """An expression. Numbers are places in the table."""

    kind: TermKind
    name: str = added("")  # of the column, the field or the function; of a literal its value
    type: str = added("")  # as SQL writes it, where Spark writes it of the expression
    # what it is over: a struct, a function's arguments, a window's time
    arguments: tuple[int, ...] = added(())
    source: int | None = added(None)  # that the column is of: its place in the plan's sources
    options: tuple[tuple[str, str], ...] = added(())  # of the function, name and value
    filters: tuple[int, ...] = added(())  # conditions on the rows that an aggregate takes
    is_distinct: bool = added(False)  # of an aggregate
    # that it makes
    window: Window | None = added(None)  # noqa: RUF009 - it makes a field
    copy: int = added(0)  # which copy of the source, where a plan has several of one

    @property
    def parts(self) -> tuple[int, ...]:
        """All terms that this one is made of."""
        return (*self.arguments, *self.filters)


@dataclass(slots=True)
class Terms:
    """A table of terms that grows."""

    table: list[Term] = field(default_factory=list)
    _places: dict[Term, int] = field(default_factory=dict)

    def add(self, term: Term) -> int:
        """Return the place of a term; where it is not there yet, at the end."""
        place = self._places.setdefault(term, len(self.table))
        if place == len(self.table):
            self.table.append(term)
        return place
