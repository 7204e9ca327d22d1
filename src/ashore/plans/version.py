"""A version of a job, as the log of one of its queries keeps it.

What it is: `JobVersion`, what was run from a start on; its JSON, and the digest that distinguishes
versions.
What it promises: pure. `read_version(write_version(version)) == version`. The plan graph is no part
of the digest: it follows from the SQL and from the releases.
"""

import json
from dataclasses import dataclass

from ashore.base import codec
from ashore.base.codec import Malformed
from ashore.plans.digests import hash_form
from ashore.plans.graph import PlanGraph


@dataclass(frozen=True, slots=True)
class Releases:
    """By what a version was run."""

    ashore: str
    spark: str
    planner: str  # graphs of two planners cannot be compared


@dataclass(frozen=True, slots=True)
class StateForm:
    """In which form the state of a query is written, on a first start."""

    format: int  # of Spark's state stores
    provider: str
    partitions: int
    join_format: str  # of joins of two streams; empty where the provider has but one


@dataclass(frozen=True, slots=True)
class NamedOperator:
    """Which operator has which directory in the checkpoint."""

    operator_id: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class JobVersion:
    """What was run from a start on."""

    job: str
    slice: str
    releases: Releases
    # the statements that the query is made of, as they are written; no secret is in them
    sql: tuple[str, ...]
    # the job file with its defaults, each key with its value; no secret is in it
    settings: tuple[tuple[str, str], ...]
    state: StateForm
    operators: tuple[NamedOperator, ...]  # that keep state
    graph: PlanGraph


def digest_version(
    sql: tuple[str, ...],
    releases: Releases,
    settings: tuple[tuple[str, str], ...],
    state: StateForm,
) -> str:
    """Return what differs where a start is that of another version.

    `sql`: the digest of the SQL, in which white space and comments play no part, and the ids that
    it gives.
    """
    written = codec.encode(tuple(sorted(settings)))
    return hash_form([codec.encode(sql), codec.encode(releases), written, codec.encode(state)])


def write_version(version: JobVersion) -> str:
    """Return the JSON of a version, on one line."""
    return json.dumps(codec.encode(version), separators=(",", ":"), ensure_ascii=False)


def read_version(text: str) -> JobVersion:
    """Return the version that was written. Raises Malformed."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise Malformed("", "it is not JSON") from None
    return codec.decode(JobVersion, value)
