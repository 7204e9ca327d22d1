"""Traces of batches, exported by OpenTelemetry's own SDK to a receiver that reads the protobuf."""

import gzip
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ashore.jobs.events import Event, Landed, StepBegun
from ashore.jobs.metrics.traces import traced
from ashore.log.progress import Step
from ashore.topics.use.run_job import _is_traced
from ashore_lab.testing import FakeClock

NS = 1_000_000
STEPS = ((Step.PLAN, 5), (Step.WRITE, 200), (Step.PREPARE, 30), (Step.MOVE, 40))


@contextmanager
def collecting(status: int = 200) -> Iterator[tuple[str, list[Any]]]:
    """Yield the address of a collector, and the requests that it gets."""
    got: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            request = ExportTraceServiceRequest()
            request.ParseFromString(body)
            got.append((self.path, request))
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", got
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def batch(number: int, clock: FakeClock) -> Iterator[Event]:
    """Yield the events of a batch: readable after `move` has begun, closed by the next `idle`."""
    before: Step = Step.IDLE
    took_ms = 1_000
    for step, next_ms in STEPS:
        clock.advance(took_ms / 1000)
        yield StepBegun("main", step, before, took_ms)
        before, took_ms = step, next_ms
    yield Landed("main", 100, 2, 7, 0, batch=number, entry=10 + number, tables=("ods.clicks",))
    clock.advance(took_ms / 1000)
    yield StepBegun("main", Step.IDLE, before, took_ms)


def values(span: Any) -> dict[str, Any]:
    found = {}
    for each in span.attributes:
        kind = each.value.WhichOneof("value")
        value = getattr(each.value, kind)
        found[each.key] = [v.string_value for v in value.values] if kind == "array_value" else value
    return found


def test_a_batch_is_a_span_with_one_for_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    with collecting() as (url, got):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        assert _is_traced()
        with traced("clicks", pytest.fail, clock) as take:
            for number in range(2):
                for event in batch(number, clock):
                    take(event)
    assert {path for path, _ in got} == {"/v1/traces"}
    (resource,) = [each for _, request in got for each in request.resource_spans]
    assert (
        values(resource.resource).items()
        >= {
            "service.name": "ashore",
            "ashore.job": "clicks",
        }.items()
    )
    spans = [span for scope in resource.scope_spans for span in scope.spans]
    roots = [span for span in spans if not span.parent_span_id]
    assert [values(span)["ashore.batch"] for span in roots] == [0, 1]
    assert values(roots[0]) == {
        "ashore.slice": "main",
        "ashore.batch": 0,
        "ashore.entry": 10,
        "ashore.rows": 100,
        "ashore.files": 2,
        "ashore.lag": 7,
        "ashore.tables.catalog": ["ods.clicks"],
    }
    root = roots[1]
    steps = [span for span in spans if span.parent_span_id == root.span_id]
    assert {span.trace_id for span in steps} == {root.trace_id} != {roots[0].trace_id}
    lasted = [(s.name, (s.end_time_unix_nano - s.start_time_unix_nano) // NS) for s in steps]
    assert lasted == [(str(step), took_ms) for step, took_ms in STEPS]
    assert root.end_time_unix_nano == clock.now_ms() * NS == steps[-1].end_time_unix_nano
    assert root.start_time_unix_nano == steps[0].start_time_unix_nano


def test_a_collector_that_refuses_keeps_nothing_from_its_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = FakeClock()
    with collecting(status=400) as (url, got):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{url}/here")
        with traced("clicks", pytest.fail, clock) as take:
            for event in batch(0, clock):
                take(event)
    assert [path for path, _ in got] == ["/here"]


@pytest.mark.parametrize(
    ("variables", "is_on"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_traces_are_off_unless_the_environment_asks_for_them(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], is_on: bool
) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert _is_traced() is is_on


def test_a_missing_package_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    told: list[str] = []
    with traced("clicks", told.append) as take:
        take(StepBegun("main", Step.PLAN))
    (said,) = told
    assert said.startswith("no traces are sent")
    assert "ashore[traces]" in said
