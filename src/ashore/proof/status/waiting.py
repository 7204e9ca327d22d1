"""Which topics of a job wait where one of them cannot be landed, from its file and its log.

What it is: `Waiting`, which ends the sentences of a status.
What it promises: the words are those of the error that stops the job, so that no view repeats it.
Where the job continues all the same, no topic is said to wait.
"""

from dataclasses import dataclass

from ashore.jobs.file import Job
from ashore.log.fold import Fold
from ashore.topics.loop.waiting_topics import show_waiting


@dataclass(frozen=True, slots=True)
class Waiting:
    """Which topics of a job wait for each other."""

    topics: frozenset[str]  # that the job lands and its log knows
    patterns: frozenset[str]  # those of them that only an expression matches
    skips_gaps: bool

    @classmethod
    def of(cls, job: Job, source: str, fold: Fold) -> "Waiting":
        """Return which topics of a slice wait for each other."""
        known = {key.stream for key in fold.current() if key.source == source}
        items = [item for item in job.tables if item.is_landed]
        topics = {topic for topic in known if any(item.matches(topic) for item in items)}
        named = {item.topic for item in items if not item.is_pattern}
        return cls(frozenset(topics), frozenset(topics - named), job.source.gap == "skip")

    def for_gap(self, topic: str) -> str:
        """Return the end of a sentence about offsets that Kafka no longer has."""
        return "" if self.skips_gaps else self.for_topic(topic)

    def for_missing(self, topic: str) -> str:
        """Return the end of a sentence about a topic that does not exist."""
        return "" if topic in self.patterns else self.for_topic(topic)

    def for_topic(self, topic: str) -> str:
        """Return the end of a sentence about a topic that cannot be landed."""
        return show_waiting(sorted(self.topics - {topic})) if topic in self.topics else ""
