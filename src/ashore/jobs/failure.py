"""The event that reports an error. Every command can fail, so it is light to import.

What it promises: `Failed.of(error).to_dict()` is the line of JSON by which processes report it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import ClassVar

from ashore.errors import AshoreError

KIND = "event"  # the key that names the kind of an event


@dataclass(frozen=True, slots=True)
class Failed:
    """The last event of a job that failed: the error as in [errors](errors.md), its exit code."""

    kind: ClassVar[str] = "error"
    exit_code: int
    code: str
    message: str
    hint: str | None
    more: Mapping[str, object] = field(default_factory=dict)  # by code; beside the others

    @classmethod
    def of(cls, error: AshoreError) -> "Failed":
        """Return the event that reports an error."""
        return cls(error.exit_code, error.code, error.message, error.hint, error.fields)

    @classmethod
    def read(cls, own: Mapping[str, object]) -> "Failed":
        """Return the event of a JSON object without its kind. Raises KeyError."""
        more = dict(own)
        known = {name: more.pop(name) for name in _names()}
        return cls(**known, more=more)  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, object]:
        """Return the event as a JSON object."""
        own = {name: getattr(self, name) for name in _names()}
        return {KIND: self.kind, **own, **self.more}


def _names() -> list[str]:
    return [each.name for each in fields(Failed) if each.name != "more"]
