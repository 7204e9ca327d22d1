"""Watermarks advance without inputs that are idle.

What it is: `IdleInputs`, which takes each batch of a query in, and says up to where the watermarks
of idle inputs are to go.
What it promises: pure. The rule is that of sealing: an input that has had no records for
`idle_after`, and has none waiting, holds the others up no longer. It is never moved above the
slowest input that is not idle, which is where the query's watermark is then: so when it brings
records again, it is waited for again.
"""

from collections.abc import Collection, Mapping, Sequence

from ashore.queries.spark.internals.event_times import TimeInput


class IdleInputs:
    """The inputs of one run of a query.

    `inputs`: with a watermark each; an input counts as idle by what it does from `now_s` on.
    `idle_after_s`: how long each topic may be silent.
    """

    def __init__(
        self, inputs: Sequence[TimeInput], idle_after_s: Mapping[str, float], now_s: float
    ) -> None:
        self._inputs = inputs
        self._idle_after_s = idle_after_s
        self._brought_s = {topic: now_s for each in inputs for topic in each.topics}
        self._marks: dict[str, int] = {}

    def brought(self, topics: Collection[str], now_s: float) -> bool:
        """Note what topics a batch has read records of; return whether an input is idle then.

        `now_s`: of the clock that `now_s` of the start was read from.
        """
        self._brought_s |= dict.fromkeys(topics, now_s)
        return len(self._inputs) > 1 and any(self._is_idle(each, now_s) for each in self._inputs)

    def topics_of(self, node: str) -> frozenset[str]:
        """Return the topics below a watermark."""
        return frozenset().union(*(each.topics for each in self._inputs if each.node == node))

    def take(self, marks: Mapping[str, int | None], now_s: float) -> dict[str, int]:
        """Take the times of a batch in; return the watermarks that idle inputs get, by their nodes.

        Batches may be left out: then watermarks advance later, and not as far.

        `marks`: what the records of the batch make of each watermark; None: there were none.
        """
        for node, mark_ms in marks.items():
            if mark_ms is not None:
                self._marks[node] = max(mark_ms, self._marks.get(node, mark_ms))
        if marks.keys() != {each.node for each in self._inputs}:
            return {}  # an input that is not known might be the slowest
        idle = [each.node for each in self._inputs if self._is_idle(each, now_s)]
        active = [self._marks.get(node) for node in marks.keys() - set(idle)]
        known = [mark_ms for mark_ms in active if mark_ms is not None]
        if not idle or not known or len(known) < len(active):
            return {}
        target = min(known)
        moved = {node: target for node in idle if self._marks.get(node, 0) < target}
        self._marks |= moved
        return moved

    def _is_idle(self, each: TimeInput, now_s: float) -> bool:
        return bool(each.topics) and all(
            now_s - self._brought_s[topic] >= self._idle_after_s[topic] for topic in each.topics
        )
