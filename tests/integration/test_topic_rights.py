"""Topics on which a job's user lacks rights: what `validate` says of them, by a real broker."""

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from tests.job_files import job_content
from tests.kafka_tools import create_topic
from tests.secured_kafka import SecuredKafka, login
from tests.served import wait_for
from typer.testing import CliRunner

from ashore.cli.app import app
from ashore.errors import SourceError
from ashore.topics.read.kafka import KafkaSource
from ashore.topics.read.source import StreamInfo

OPTIONS = {"security.protocol": "SASL_PLAINTEXT", **login("PLAIN")}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with SecuredKafka(tmp_path_factory.mktemp("rights")) as kafka:
        yield kafka


def describe(secured: SecuredKafka, topic: str) -> StreamInfo | str:
    """Return a topic as carol sees it, or what she is told."""
    source = KafkaSource(secured.places["SASL_PLAINTEXT"], OPTIONS, 20.0)
    try:
        return source.describe_streams([topic])[topic]
    except SourceError as error:
        return error.message
    finally:
        source.close()


def restrict(secured: SecuredKafka, *operations: AclOperation) -> str:
    """Return a topic on which carol may do no more than this."""
    topic = f"rights-{uuid4().hex[:8]}"
    create_topic(secured.servers, topic, 1)
    admin = AdminClient({"bootstrap.servers": secured.servers, "log_level": 0})
    allowed = [("User:carol", each) for each in operations]
    bindings = [
        AclBinding(
            *(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL),
            *(user, "*", operation, AclPermissionType.ALLOW),
        )
        for user, operation in [("User:other", AclOperation.READ), *allowed]
    ]
    for answer in admin.create_acls(bindings).values():
        answer.result(20)
    # The broker learns of them a moment later.
    may_read = AclOperation.READ in operations
    wait_for(lambda: describe(secured, topic), lambda seen: _may_read(seen) == may_read)
    return topic


def _may_read(seen: StreamInfo | str) -> bool:
    return isinstance(seen, StreamInfo) and seen.may_read


def validate(secured: SecuredKafka, topic: str, directory: Path) -> dict[str, object]:
    content = job_content(secured.places["SASL_PLAINTEXT"], directory, topic)
    content["source"]["kafka"]["options"] = OPTIONS  # type: ignore[index]
    job_file = directory / "job.yaml"
    job_file.write_text(json.dumps(content))
    result = CliRunner().invoke(app, ["validate", str(job_file), "--json"])
    assert result.exit_code == 7, result.stdout
    error: dict[str, object] = json.loads(result.stdout)["error"]
    return error


@pytest.mark.parametrize(
    ("operations", "missing"), [((), "Describe"), ((AclOperation.DESCRIBE,), "Read")]
)
def test_the_right_that_is_missing_is_named(
    secured: SecuredKafka, operations: tuple[AclOperation, ...], missing: str, tmp_path: Path
) -> None:
    topic = restrict(secured, *operations)
    error = validate(secured, topic, tmp_path)
    assert f"topic {topic}: {missing} is missing" in str(error["message"])
    assert "kafka-acls.sh" in str(error["hint"])


def test_read_alone_is_enough(secured: SecuredKafka) -> None:
    assert _may_read(describe(secured, restrict(secured, AclOperation.READ)))
