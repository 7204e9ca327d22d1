"""Tables of topics, as tests want them: what a test does not say is as harmless as can be."""

from dataclasses import fields, replace

from ashore.topics.write.batch import LandingSpec, LateRule, OutputSpec

OUTPUT = OutputSpec(
    table="ods.clicks",
    schema="ts BIGINT",
    partition_by=(),
    timezone="UTC",
    event_column="ts",
    event_unit="ms",
    format="jsonl",
    roll_bytes=1 << 20,
)
LANDING = LandingSpec(
    output=OUTPUT,
    decode="json",
    late=LateRule(0, "keep", 0),
    on_invalid="dead_letter",
    provenance=True,
)
_OUTPUT = {each.name for each in fields(OutputSpec)}


def landing(base: LandingSpec = LANDING, **changes: object) -> LandingSpec:
    """Return `base` with other values: of the landing, and of its output."""
    output = {name: changes.pop(name) for name in _OUTPUT & changes.keys()}
    return replace(base, output=replace(base.output, **output), **changes)
