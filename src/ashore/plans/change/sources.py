"""Which source of an old query is which of a new one, and the verdict on its offsets.

What it is: `match_sources`, pairs of Kafka sources, and `judge_sources`, the verdict on each.
What it promises: pure. A source is known by the topics that it reads, never by its place alone.
Two readings of one topic are distinguished by what stands above them; where that is the same they
are not guessed, unless all of them have the places that they had.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ashore.base.codec import Json
from ashore.plans.change.verdicts import SourceVerdict, StateVerdict
from ashore.plans.graph import PlanGraph, PlanSource, list_fixed
from ashore.plans.operator_graph import find_above
from ashore.plans.regions import narrow, number_sources

ADDED = (
    "it is new: it is read from the earliest record that Kafka has, or from offsets that are chosen"
)
DROPPED = (
    "the new SQL does not read it: its offsets are dropped; where it is read again later, reading "
    "continues after the last record that the log has"
)
AGAIN = (
    "{} is read once more: Spark reads both readings from one offset, so the new one would not "
    "begin with the earliest record; write it to a new table or topic"
)
FIXED = (
    "streams that are not Kafka's come, go or change places: their offsets cannot be moved, so one "
    "would continue where another was"
)


@dataclass(frozen=True, slots=True)
class SourceMapping:
    """Which Kafka source is which, by their places among the sources of two graphs."""

    pairs: Mapping[int, int]  # place in the new graph, and in the old one
    added: frozenset[int]  # places in the new graph
    dropped: frozenset[int]  # places in the old graph
    # readings that cannot be distinguished, a sentence for each topic
    unclear: tuple[str, ...] = ()

    def number_old(self, old: PlanGraph, new: PlanGraph) -> list[Json]:
        """Return what distinguishes the sources of the old graph, as those of the new one."""
        numbers = number_sources(new.sources)
        became = {was: numbers[now] for now, was in self.pairs.items()}
        return [
            became.get(place, ["gone", place]) if source.is_kafka else number
            for place, (source, number) in enumerate(
                zip(old.sources, number_sources(old.sources), strict=True)
            )
        ]


def match_sources(old: PlanGraph, new: PlanGraph) -> SourceMapping:
    """Return which Kafka source of a graph is which of another one."""
    if list_fixed(old.sources) != list_fixed(new.sources):
        return SourceMapping({}, frozenset(), frozenset(), (FIXED,))
    matcher = _Matcher(old, new, _list_topics(old), _list_topics(new))
    matcher.match_topics()
    matcher.match_overlaps()
    return matcher.mapping()


def moves_offsets(source: SourceVerdict) -> bool:
    """Return whether a checkpoint has to have other offsets of a source."""
    return source.old != source.new or source.verdict is not StateVerdict.FULL


def judge_sources(
    old: PlanGraph, new: PlanGraph, mapping: SourceMapping
) -> tuple[SourceVerdict, ...]:
    """Return the verdict on each source, in the order of the new graph; those dropped come last.

    Requires: nothing is unclear.
    """
    was, now = _number_streams(old.sources), _number_streams(new.sources)
    found = []
    for place, number in now.items():
        source, before = new.sources[place], mapping.pairs.get(place)
        if before is None:
            verdict = SourceVerdict(source.reads, StateVerdict.PARTIAL, (ADDED,), None, number)
        else:
            verdict = _judge_pair(old.sources[before], source, was[before], number)
        found.append(verdict)
    for place in sorted(mapping.dropped):
        reads = old.sources[place].reads
        found.append(SourceVerdict(reads, StateVerdict.LOST, (DROPPED,), was[place], None))
    return tuple(found)


def _judge_pair(old: PlanSource, new: PlanSource, was: int, now: int) -> SourceVerdict:
    verdict, why = StateVerdict.FULL, list[str]()
    before, after = old.reads.split(","), new.reads.split(",")
    come = [each for each in after if each not in before]
    removed = [each for each in before if each not in after]
    if come:
        why.append(f"{', '.join(come)} is read too, from the earliest record that Kafka has")
    if was != now:
        verdict = StateVerdict.CONVERT
        why.append(f"it is source {now + 1}, was source {was + 1}: its offsets move with it")
    if removed:
        verdict = StateVerdict.LOST
        why.append(f"{', '.join(removed)} is no longer read: its offsets are dropped")
    return SourceVerdict(new.reads, verdict, tuple(why), was, now)


def _list_topics(graph: PlanGraph) -> dict[int, frozenset[str]]:
    return {
        place: frozenset(source.reads.split(","))
        for place, source in enumerate(graph.sources)
        if source.is_kafka
    }


def _number_streams(sources: Sequence[PlanSource]) -> dict[int, int]:
    """Return the place of each Kafka source among these: the line of its offsets."""
    places = [place for place, source in enumerate(sources) if source.is_kafka]
    return {place: number for number, place in enumerate(places)}


@dataclass(slots=True)
class _Matcher:
    old: PlanGraph
    new: PlanGraph
    was: dict[int, frozenset[str]]  # sources that have no pair yet, with their topics
    now: dict[int, frozenset[str]]
    _pairs: dict[int, int] = field(default_factory=dict)
    _unclear: list[str] = field(default_factory=list)

    def match_topics(self) -> None:
        """Pair sources that read the same topics."""
        several = []
        for topics in dict.fromkeys(self.now.values()):
            before = [place for place, each in self.was.items() if each == topics]
            after = [place for place, each in self.now.items() if each == topics]
            if len(before) == len(after) == 1:
                self._pair(before[0], after[0])
            elif len(after) > len(before) > 0:
                # Both readings of a view are one stream to Spark. With a line of offsets for each
                # the last line counts for both, and a line without an offset for none.
                self._unclear.append(AGAIN.format(", ".join(sorted(topics))))
            elif before:
                several.append((topics, before, after))
        if several:
            self._match_readings(several)

    def match_overlaps(self) -> None:
        """Pair sources that have topics in common, where it can be but one: topics may come."""
        overlaps = [
            (before, after)
            for after, now in self.now.items()
            for before, was in self.was.items()
            if was & now
        ]
        for before, after in overlaps:
            if sum(before == one or after == other for one, other in overlaps) == 1:
                self._pair(before, after)
            elif not self._unclear:
                text = ", ".join(sorted(self.now[after] | self.was.get(before, frozenset())))
                self._unclear.append(
                    f"{text}: several sources have these topics in common; which of them is which "
                    "is not known"
                )

    def mapping(self) -> SourceMapping:
        return SourceMapping(
            self._pairs, frozenset(self.now), frozenset(self.was), tuple(self._unclear)
        )

    def _pair(self, before: int, after: int) -> None:
        self._pairs[after] = before
        self.was.pop(before)
        self.now.pop(after)

    def _match_readings(
        self, several: Sequence[tuple[frozenset[str], list[int], list[int]]]
    ) -> None:
        """Pair readings of the same topics by what stands above them."""
        above_old, above_new = self._find_above()
        for topics, before, after in several:
            for was, now in _find_unique(before, after, above_old, above_new):
                self._pair(was, now)
            left = [each for each in before if each in self.was]
            come = [each for each in after if each in self.now]
            if _streams_of(self.old, before) == _streams_of(self.new, after):
                # All have the places that they had: what is not distinguished keeps its place.
                for was, now in zip(left, come, strict=True):
                    self._pair(was, now)
            elif len(left) == len(come) == 1:
                self._pair(left[0], come[0])
            elif left and come:
                self._unclear.append(
                    f"{', '.join(sorted(topics))} is read {len(before)} times, and {len(after)} "
                    "times by the new SQL: which reading is which is unknown"
                )

    def _find_above(self) -> tuple[dict[int, str], dict[int, str]]:
        """Return what stands above each source, as far as both graphs can have it."""
        known = set(self.was.values()) | set(self.now.values())
        found = []
        for graph, mine, others in (
            (self.old, self.was, set(self.now.values())),
            (self.new, self.now, set(self.was.values())),
        ):
            single = {place for place, each in mine.items() if each in known - others}
            found.append(find_above(narrow(graph, frozenset(single))))
        return found[0], found[1]


def _find_unique(
    before: Sequence[int], after: Sequence[int], old: dict[int, str], new: dict[int, str]
) -> Iterator[tuple[int, int]]:
    for was in before:
        alike = [now for now in after if was in old and new.get(now) == old[was]]
        others = [each for each in before if old.get(each) == old.get(was)]
        if len(alike) == len(others) == 1:
            yield was, alike[0]


def _streams_of(graph: PlanGraph, places: Sequence[int]) -> list[int]:
    numbers = _number_streams(graph.sources)
    return [numbers[each] for each in places]
