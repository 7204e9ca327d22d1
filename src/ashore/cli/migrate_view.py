"""What the verdict on a change of SQL looks like, as lines and as JSON.

What it promises: the lines say no more than the document.
What it must not know: how a verdict is found.
"""

from collections.abc import Iterator, Sequence

from ashore.config.mapping import write_mapping
from ashore.control.migration import JudgedQuery
from ashore.migration.verdicts import MappedPair, OperatorVerdict, StateVerdict, worst
from ashore.protocol.codec import Json

_NEXT = {
    StateVerdict.FULL: "a start with the new SQL uses the state as it is",
    StateVerdict.CONVERT: "the state has to be rewritten, and nothing of it is lost",
    StateVerdict.PARTIAL: "the state has to be rewritten, and parts of it start empty",
    StateVerdict.LOST: "the state has to be rewritten, and parts of it are dropped",
    StateVerdict.REFUSED: "the state cannot be kept: write to a new table or topic from the start",
}


def judged_lines(found: Sequence[JudgedQuery]) -> Iterator[str]:
    """Yield what becomes of each query, operator and column."""
    for query in found:
        yield f"{query.query}: {query.verdict.verdict}"
        yield from (f"  {why}" for why in query.verdict.why)
        pairs = {pair.new: pair for pair in query.verdict.mapping}
        for operator in query.verdict.operators:
            yield from _operator(operator, pairs.get(operator.new or ""))
    if not found:
        yield "the job has no SQL: it keeps no state"
        return
    verdict = worst(each.verdict.verdict for each in found)
    yield f"{verdict}: {_NEXT[verdict]}"


def _operator(operator: OperatorVerdict, pair: MappedPair | None) -> Iterator[str]:
    yield f"  {operator.name} [{_ids(operator)}]: {operator.verdict}"
    if pair is not None:
        yield f"    paired with a score of {pair.score:.2f}: {pair.why}"
    yield from (f"    {why}" for why in operator.why)
    for column in operator.columns:
        why = f": {column.why}" if column.why else ""
        yield f"    {column.verdict:<8} {column.name}{why}"


def _ids(operator: OperatorVerdict) -> str:
    if operator.old == operator.new:
        return operator.new or ""
    return f"{operator.old or 'new'} -> {operator.new or 'gone'}"


def judged_document(found: Sequence[JudgedQuery]) -> dict[str, Json]:
    """Return all as JSON; the verdict of the whole is that of its worst part."""
    return {
        "verdict": worst(each.verdict.verdict for each in found).value,
        "queries": [
            {
                "query": each.query,
                "verdict": each.verdict.verdict.value,
                "why": [*each.verdict.why],
            }
            for each in found
        ],
        "operators": [
            _operator_document(query.query, each)
            for query in found
            for each in query.verdict.operators
        ],
        "mapping": [
            {
                "query": query.query,
                "old": each.old,
                "new": each.new,
                "by": each.why.name.lower(),
                "score": each.score,
            }
            for query in found
            for each in query.verdict.mapping
        ],
    }


def _operator_document(query: str, operator: OperatorVerdict) -> Json:
    return {
        "query": query,
        "name": operator.name,
        "old": operator.old,
        "new": operator.new,
        "verdict": operator.verdict.value,
        "why": [*operator.why],
        "differs_from_replay": operator.differs_from_replay,
        "columns": [
            {"name": each.name, "verdict": each.verdict.value, "why": each.why}
            for each in operator.columns
        ],
    }


def mapping_text(found: Sequence[JudgedQuery]) -> str:
    """Return the pairs as a mapping file, to be edited."""
    return write_mapping(
        (each.old, each.new, each.why.value) for query in found for each in query.verdict.mapping
    )
