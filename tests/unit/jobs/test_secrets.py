"""A secret is shown by nothing but the call that asks for it."""

import json
import pickle
import traceback

import pytest
from tests.unit.jobs.texts import EXAMPLE, SECRET, SMALL, VALID, changed, job, only, problems

from ashore.errors import JobFileInvalid
from ashore.jobs.file import KafkaOptions, parse_job
from ashore.jobs.kafka_options import OWNED_OPTIONS

WITH_SECRET = changed(
    VALID,
    (
        "options: {}",
        """options:
      sasl.mechanism: PLAIN
      sasl.jaas.config: 'module required username="u" password="${KAFKA_PASSWORD}";'
      ssl.key.password: ${KAFKA_PASSWORD}
      client.id: ${CLIENT}""",
    ),
    ("file:///data/lake", "file:///${LAKE}/lake"),
)
ENVIRONMENT = {"KAFKA_PASSWORD": SECRET, "LAKE": "data-7", "CLIENT": "client-7"}


def test_variables_are_replaced_for_the_one_who_asks() -> None:
    loaded = job(WITH_SECRET, **ENVIRONMENT)
    options = loaded.source.kafka.options
    assert options["ssl.key.password"] == SECRET
    assert f'password="{SECRET}"' in options["sasl.jaas.config"]
    assert options["sasl.mechanism"] == "PLAIN"
    assert options.secret_names == {"sasl.jaas.config", "ssl.key.password", "client.id"}
    assert loaded.lake.reveal() == "file:///data-7/lake"


def test_nothing_shows_what_a_variable_holds() -> None:
    loaded = job(WITH_SECRET, **ENVIRONMENT)
    options = loaded.source.kafka.options
    shown = [
        repr(loaded),
        str(loaded),
        f"{loaded.lake} {loaded.lake!r} {options} {options!r}",
        loaded.model_dump_json(),
        loaded.model_dump_json(by_alias=True),
        repr(loaded.model_dump()),
        json.dumps(loaded.model_dump(mode="json")),
        repr(vars(loaded)),
    ]
    for text in shown:
        for value in ENVIRONMENT.values():
            assert value not in text
    assert options.shown()["ssl.key.password"] == "${KAFKA_PASSWORD}"
    assert options.shown()["sasl.mechanism"] == "PLAIN"


def test_secrets_written_out_are_masked_too() -> None:
    text = changed(
        VALID,
        (
            "options: {}",
            f"options: {{sasl.jaas.config: {SECRET}, ssl.keystore.password: {SECRET}}}",
        ),
        ("file:///data/lake", f"file://user:{SECRET}@/data/lake"),
    )
    found = problems(text)
    assert SECRET not in repr(found)
    loaded = job(changed(text, (f"user:{SECRET}@", "")))
    assert SECRET not in repr(loaded) + loaded.model_dump_json()
    assert loaded.source.kafka.options["sasl.jaas.config"] == SECRET


def test_a_password_in_a_uri_is_masked() -> None:
    uri = f"thrift://user:{SECRET}@/x@host:9083"
    text = changed(EXAMPLE, ("thrift://127.0.0.1:9083", uri))
    loaded = job(text)
    assert SECRET not in repr(loaded)
    assert SECRET not in loaded.model_dump_json()
    assert loaded.catalog.hive is not None
    assert loaded.catalog.hive.uri.reveal() == uri


def test_the_digest_leaves_secrets_out() -> None:
    other = {**ENVIRONMENT, "KAFKA_PASSWORD": "rotated"}
    assert job(WITH_SECRET, **ENVIRONMENT).digest == job(WITH_SECRET, **other).digest


def test_secrets_travel_to_other_processes() -> None:
    again = pickle.loads(pickle.dumps(job(WITH_SECRET, **ENVIRONMENT)))
    assert again.source.kafka.options["ssl.key.password"] == SECRET


@pytest.mark.parametrize(
    "change",
    [
        ("client.id:", "group.id:"),
        ("client.id:", "kafka.client.id:"),
        ("sasl.mechanism: PLAIN", f"sasl.mechanism: [{SECRET}]"),
        ("sasl.mechanism: PLAIN", f"sasl.mechanism: {{a: {SECRET}}}"),
        ("sasl.mechanism: PLAIN", f"ssl.key.password: !{SECRET}!x y"),
        ("sasl.mechanism: PLAIN", f"ssl.key.password: !{SECRET} y"),
        ("sasl.mechanism: PLAIN", f"ssl.key.password: *{SECRET}"),
        ("sasl.mechanism: PLAIN", f"ssl.key.password: {SECRET}"),
        ("sasl.mechanism: PLAIN", f'sasl.mechanism: "{SECRET}'),
        ("file:///${LAKE}", "${KAFKA_PASSWORD}"),
        ("file:///${LAKE}", "ftp://${KAFKA_PASSWORD}"),
        ("gap: fail", "gap: ${KAFKA_PASSWORD}"),
    ],
)
def test_no_error_shows_a_secret(change: tuple[str, str]) -> None:
    text = changed(WITH_SECRET, change)
    with pytest.raises(JobFileInvalid) as caught:
        parse_job(text, environment=ENVIRONMENT)
    error = caught.value
    reported = str(error) + repr(error.to_dict()) + "".join(traceback.format_exception(error))
    for value in ENVIRONMENT.values():
        assert value not in reported


def test_a_missing_variable_is_named() -> None:
    without = {name: value for name, value in ENVIRONMENT.items() if name != "CLIENT"}
    line, key, message, instead = only(WITH_SECRET, environment=without)
    assert (line, key) == (10, "source.kafka.options.client.id")
    assert "variable CLIENT is not set" in message
    assert instead.startswith("set CLIENT ")


def test_a_variable_is_replaced_once_only() -> None:
    options = job(
        WITH_SECRET, **{**ENVIRONMENT, "KAFKA_PASSWORD": "${CLIENT}"}
    ).source.kafka.options
    assert options["ssl.key.password"] == "${CLIENT}"


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLIENT", "from-the-process")
    text = changed(SMALL, ('9092"', '9092", options: {client.id: "${CLIENT}"}'))
    assert parse_job(text).source.kafka.options["client.id"] == "from-the-process"


def test_variables_elsewhere_are_refused() -> None:
    line, key, message, _ = only(changed(VALID, ("select: null", 'where: "a = ${X}"')))
    assert (line, key) == (22, "tables[0].where")
    assert "not supported here" in message


def test_half_a_variable_is_refused() -> None:
    _, key, _, instead = only(changed(VALID, ("options: {}", "options: {client.id: '${A-B}'}")))
    assert key == "source.kafka.options.client.id"
    assert instead.startswith("write ${NAME}")


@pytest.mark.parametrize("name", [*OWNED_OPTIONS, "Isolation.Level", "kafka.isolation.level"])
def test_options_that_are_ours_are_refused_with_the_reason(name: str) -> None:
    text = changed(VALID, ("options: {}", f"options: {{{name}: x}}"))
    line, key, message, instead = only(text)
    assert (line, key) == (6, f"source.kafka.options.{name}")
    reason = OWNED_OPTIONS.get(name, OWNED_OPTIONS["isolation.level"])
    assert reason in message
    assert instead == "remove it"


def test_options_are_a_mapping() -> None:
    assert dict(KafkaOptions()) == {}
    assert len(job(WITH_SECRET, **ENVIRONMENT).source.kafka.options) == 4
