"""Traces of batches for OpenTelemetry: a span per batch, and below it one per step.

What it promises: a slow receiver does not delay the job: spans wait in memory, and are dropped
where there is no room.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ashore.base.clock import Clock, SystemClock
from ashore.jobs.events import BatchSteps, EndedBatch, Event, Landed, StepBegun

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

EXPORT_S = 5.0
TABLES_MAX = 20
_NS = 1_000_000


@contextmanager
def traced(
    job: str, warn: Callable[[str], None], clock: Clock | None = None
) -> Iterator[Callable[[Event], None]]:
    """Send the spans of what the yielded function is given, while inside.

    `warn` is called with a sentence where that cannot be.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http import trace_exporter  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - as above
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - as above
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - as above
    except ModuleNotFoundError as error:
        missing = f"the package {error.name} is missing; pip install 'ashore[traces]'"
        warn(f"no traces are sent: {missing}")
        yield lambda _event: None
        return
    named = {"service.name": os.environ.get("OTEL_SERVICE_NAME") or "ashore", "ashore.job": job}
    provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
    exporter = trace_exporter.OTLPSpanExporter(timeout=EXPORT_S)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    try:
        yield BatchTraces(provider.get_tracer("ashore"), clock or SystemClock()).take
    finally:
        provider.shutdown()


class BatchTraces:
    """Makes spans of events. Used by one thread.

    Arguments:
        tracer: where spans begin.
        clock: of this machine.

    """

    def __init__(self, tracer: "Tracer", clock: Clock) -> None:
        self._tracer = tracer
        self._clock = clock
        self._slices: dict[str, BatchSteps] = {}

    def take(self, event: Event) -> None:
        """Take an event in."""
        match event:
            case StepBegun():
                ended = self._slices.setdefault(event.slice, BatchSteps()).begin(event)
                if ended is not None:
                    self._send(ended)
            case Landed():
                self._slices.setdefault(event.slice, BatchSteps()).land(event)

    def _send(self, ended: EndedBatch) -> None:
        from opentelemetry.trace import set_span_in_context  # noqa: PLC0415 - an extra

        landed, end_ns = ended.landed, self._clock.now_ms() * _NS
        start_ns = end_ns - sum(took_ms for _, took_ms in ended.steps) * _NS
        values = {"slice": landed.slice, "batch": landed.batch, "entry": landed.entry}
        values |= {"rows": landed.rows, "files": landed.files, "lag": landed.lag}
        attributes = {f"ashore.{key}": value for key, value in values.items() if value is not None}
        tables = list(landed.tables[:TABLES_MAX])
        batch = self._tracer.start_span(
            "batch", start_time=start_ns, attributes={**attributes, "ashore.tables.catalog": tables}
        )
        within = set_span_in_context(batch)
        for step, took_ms in ended.steps:
            span = self._tracer.start_span(str(step), context=within, start_time=start_ns)
            start_ns += took_ms * _NS
            span.end(end_time=start_ns)
        batch.end(end_time=end_ns)
