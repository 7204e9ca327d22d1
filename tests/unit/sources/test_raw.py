"""Which reader reads, and what of a job's servers the native one understands."""

import pytest

from ashore.sources import raw
from ashore.sources.client import Cluster
from ashore.sources.raw import Choice, choose


@pytest.mark.parametrize(
    ("servers", "why_not"),
    [
        ("kafka-1:9092, kafka-2:9093", ""),
        ("kafka", ""),  # librdkafka's default port
        ("PLAINTEXT://kafka:9092", ""),
        ("[::1]:9092", ""),
        ("kafka:http", "kafka:http is not of the form HOST:PORT"),
        ("kafka:70000", "kafka:70000 is not of the form HOST:PORT"),
    ],
)
def test_servers_are_named_as_librdkafka_takes_them(
    servers: str, why_not: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw, "load", lambda: raw)  # any module: nothing is read
    assert choose(Cluster.of(servers, {}, 1.0)) == Choice(not why_not, why_not)


def test_without_the_module_librdkafka_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw, "load", lambda: None)
    choice = choose(Cluster.of("kafka:9092", {}, 1.0))
    assert choice == Choice(False, "the package ashore-native is not installed")
