"""Java names to the driver's client: translated, left out on purpose, or refused by name."""

import pytest

from ashore.errors import JobFileInvalid
from ashore.jobs.file.options import KafkaOptions
from ashore.jobs.file.values import ValueRefused
from ashore.jobs.kafka_options import LIBRDKAFKA_NAMES, OWNED_OPTIONS
from ashore.topics.read.reader_options import (
    JAVA_ONLY,
    RENAMED,
    SAME,
    SASL,
    TLS,
    parse_jaas,
    translate_options,
    why_not_raw,
)

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def refused(options: dict[str, str]) -> JobFileInvalid:
    with pytest.raises(JobFileInvalid) as reported:
        translate_options(options)
    return reported.value


def test_no_options_are_no_settings() -> None:
    assert translate_options({}) == {}


def test_names_that_both_clients_have_go_through() -> None:
    options = {"client.id": "billing", "security.protocol": "SSL", "client.rack": "a"}
    assert translate_options(options) == options


@pytest.mark.parametrize(
    ("java", "value", "name", "meant"),
    [
        ("request.timeout.ms", "5000", "socket.timeout.ms", "5000"),
        ("receive.buffer.bytes", "65536", "socket.receive.buffer.bytes", "65536"),
        ("receive.buffer.bytes", "-1", "socket.receive.buffer.bytes", "0"),
        ("send.buffer.bytes", "-1", "socket.send.buffer.bytes", "0"),
        (
            "ssl.endpoint.identification.algorithm",
            "",
            "ssl.endpoint.identification.algorithm",
            "none",
        ),
        (
            "ssl.endpoint.identification.algorithm",
            "https",
            "ssl.endpoint.identification.algorithm",
            "https",
        ),
    ],
)
def test_names_and_values_that_differ(java: str, value: str, name: str, meant: str) -> None:
    assert translate_options({java: value}) == {name: meant}


def test_what_only_tunes_the_java_reader_is_left_out() -> None:
    assert translate_options(dict.fromkeys(JAVA_ONLY, "1")) == {}


@pytest.mark.parametrize("option", sorted(OWNED_OPTIONS))
def test_options_of_ashore_are_refused(option: str) -> None:
    error = refused({option: "x"})
    assert OWNED_OPTIONS[option] in error.message
    assert error.fields["problems"][0]["key"] == f"source.kafka.options.{option}"


def test_owned_options_are_refused_in_any_case() -> None:
    assert "it cannot be set" in refused({"FAILondataloss": "false"}).message


def test_no_option_is_in_two_tables() -> None:
    tables = [SAME, frozenset(RENAMED), JAVA_ONLY, SASL, TLS, frozenset(OWNED_OPTIONS)]
    assert sum(map(len, tables)) == len(frozenset().union(*tables))


def test_an_unknown_option_is_refused_with_the_nearest_name() -> None:
    assert "did you mean `client.rack`?" in refused({"client.rakc": "a"}).message
    assert "does not support it" in refused({"sasl.login.callback.handler.class": "X"}).message


def test_all_problems_are_reported_at_once() -> None:
    error = refused({"group.id": "g", "nonsense": "1", "security.protocol": "TLS"})
    assert [each["key"].rpartition("options.")[2] for each in error.fields["problems"]] == [
        "group.id",
        "nonsense",
        "security.protocol",
    ]
    assert "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL" in error.message
    assert error.exit_code == 2


# --- logins ------------------------------------------------------------------------------------


def with_login(mechanism: str, jaas: str, protocol: str = "SASL_SSL") -> dict[str, str]:
    return {
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": jaas,
    }


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("PLAIN", PLAIN), ("SCRAM-SHA-256", SCRAM), ("SCRAM-SHA-512", SCRAM)],
)
@pytest.mark.parametrize("protocol", ["SASL_SSL", "SASL_PLAINTEXT"])
def test_user_and_password_come_from_the_login_entry(
    mechanism: str, module: str, protocol: str
) -> None:
    jaas = f'{module} required username="alice" password="wonder land";'

    assert translate_options(with_login(mechanism, jaas, protocol)) == {
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": "wonder land",
    }


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('"plain"', "plain"),
        ("'single \"inside\"'", 'single "inside"'),
        (r'"quo\"te"', 'quo"te'),
        (r'"back\\slash"', "back\\slash"),
        (r'"tab\there"', "tab\there"),
        ('"semi;colon=x required"', "semi;colon=x required"),
        ('""', ""),
        ("bare-word", "bare-word"),
        ('"ümläut"', "ümläut"),
    ],
)
def test_passwords_are_read_as_java_reads_them(written: str, meant: str) -> None:
    login = parse_jaas(f"  {PLAIN}\n required\n\tusername='u'  password = {written} ;\n")
    assert login is not None
    assert login.module == PLAIN
    assert login.values == {"username": "u", "password": meant}
    assert repr(login) == f"Login(module={PLAIN!r})"


@pytest.mark.parametrize(
    "jaas",
    [
        "",
        "secret-thing",
        f'{PLAIN} required username="u" password="secret-thing"',  # no semicolon
        f'{PLAIN} required username="u" password="secret-thing;',  # quote left open
        f'{PLAIN} required password="secret-thing";',  # no user
        f'{PLAIN} optional username="u" password="secret-thing";',
        f'{SCRAM} required username="u" password="secret-thing";',  # of another mechanism
        f'{PLAIN} required username="u" password="secret-thing"; {PLAIN} required;',
    ],
)
def test_a_login_entry_that_does_not_fit_is_refused_and_not_repeated(jaas: str) -> None:
    error = refused(with_login("PLAIN", jaas))

    assert f'write {PLAIN} required username="..." password="...";' in error.message
    assert "secret-thing" not in str(error.to_dict())


def test_mechanisms_without_a_counterpart_are_refused() -> None:
    for mechanism in ("GSSAPI", "OAUTHBEARER", "AWS_MSK_IAM"):
        error = refused(with_login(mechanism, "x"))
        assert f"does not support {mechanism}" in error.message
        assert "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512" in error.message
    default = refused({"security.protocol": "SASL_SSL"})
    assert "does not support GSSAPI" in default.message


def test_delegation_tokens_are_refused() -> None:
    jaas = f'{SCRAM} required username="t" password="h" tokenauth="true";'
    assert "delegation tokens" in refused(with_login("SCRAM-SHA-256", jaas)).message


def test_a_login_is_not_used_without_a_protocol_that_has_logins() -> None:
    jaas = f'{PLAIN} required username="u" password="p";'
    assert translate_options(with_login("PLAIN", jaas, "SSL")) == {"security.protocol": "SSL"}


# --- names of librdkafka -----------------------------------------------------------------------


@pytest.mark.parametrize("name", LIBRDKAFKA_NAMES)
def test_a_name_of_librdkafka_is_refused_with_what_to_write(name: str) -> None:
    with pytest.raises(ValueRefused, match="name of librdkafka") as caught:
        KafkaOptions.check_name(name)
    words = caught.value.instead.removeprefix("write ").replace(":", " ").replace(",", " ")
    known = {*SAME, *RENAMED, *JAVA_ONLY, *SASL, *TLS, "source.kafka.bootstrap_servers"}
    assert known & {*words.split()}, "it names an option that the Java client has"


# --- TLS ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"},
            {"ssl.ca.location": "/ca.pem"},
        ),
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "-----BEGIN"},
            {"ssl.ca.pem": "-----BEGIN"},
        ),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/me.pem"},
            {"ssl.key.location": "/me.pem", "ssl.certificate.location": "/me.pem"},
        ),
        (
            {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.key": "KEY",
                "ssl.keystore.certificate.chain": "CHAIN",
                "ssl.key.password": "p",
            },
            {"ssl.key.pem": "KEY", "ssl.certificate.pem": "CHAIN", "ssl.key.password": "p"},
        ),
        (
            {
                "ssl.keystore.type": "pkcs12",
                "ssl.keystore.location": "/me.p12",
                "ssl.keystore.password": "p",
            },
            {"ssl.keystore.location": "/me.p12", "ssl.keystore.password": "p"},
        ),
    ],
)
def test_stores_that_openssl_reads(options: dict[str, str], settings: dict[str, str]) -> None:
    assert translate_options(options) == settings


@pytest.mark.parametrize(
    ("options", "instead"),
    [
        ({"ssl.truststore.location": "/t.jks"}, "keytool -list -rfc"),
        (
            {"ssl.truststore.location": "/t.p12", "ssl.truststore.type": "PKCS12"},
            "ssl.truststore.type: PEM",
        ),
        ({"ssl.keystore.location": "/k.jks"}, "-deststoretype PKCS12"),
    ],
)
def test_stores_that_only_java_reads_are_refused_with_the_command(
    options: dict[str, str], instead: str
) -> None:
    assert instead in refused(options).message


# --- the native reader -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"client.id": "mine", "check.crcs": "false", "request.timeout.ms": "5000"},
        {"security.protocol": "plaintext", "client.dns.lookup": "use_all_dns_ips"},
        {"fetch.max.bytes": "1"},  # which tunes Java's client only
        {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""},
        {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/etc/ca.pem"},
        {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/etc/client.pem"},
    ],
)
def test_the_native_reader_follows_these_options(options: dict[str, str]) -> None:
    assert why_not_raw(translate_options(options)) == ""


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"client.rack": "a"}, "client.rack"),
        ({"receive.buffer.bytes": "65536"}, "receive.buffer.bytes"),
        (
            {"client.dns.lookup": "resolve_canonical_bootstrap_servers_only"},
            "client.dns.lookup: resolve_canonical_bootstrap_servers_only",
        ),
    ],
)
def test_what_the_native_reader_does_not_do_is_librdkafkas(
    options: dict[str, str], reason: str
) -> None:
    assert why_not_raw(translate_options(options)) == f"it does not support {reason}"


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_the_native_reader_logs_in_with_a_password(mechanism: str) -> None:
    module = PLAIN if mechanism == "PLAIN" else SCRAM
    options = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="alice" password="wonderland";',
    }
    assert why_not_raw(translate_options(options)) == ""


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ssl.keystore.location", {"ssl.keystore.type": "PKCS12"}),
        ("ssl.key.password", {"ssl.keystore.type": "PEM", "ssl.key.password": "wonderland"}),
    ],
)
def test_keys_that_are_encrypted_are_librdkafkas_and_in_no_reason(
    name: str, options: dict[str, str]
) -> None:
    store = {"security.protocol": "SSL", "ssl.keystore.location": "/etc/client", **options}
    assert why_not_raw(translate_options(store)) == f"it does not support {name}"
