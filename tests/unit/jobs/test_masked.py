"""Secrets of a job file's text: what is masked, what comes back, what is refused."""

import json

import pytest

from ashore.errors import JobFileInvalid
from ashore.jobs.file.masking import mask_secrets, restore_secrets

TEXT = """\
job: clicks
source:
  kafka:
    options:
      sasl.password: hunter2 # why
      ssl.key.password: ${PW}
      ssl.keystore.key: |
        -----BEGIN-----
        hunter3
      sasl.jaas.config: >-
        Plain required
          password="hunter4";

      ssl.token: ["hunter5", 'hunter6']
      security.protocol: SSL
  # until May:
  #   sasl.password: hunter8
tables: [] # of the password hunter9
"""


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        TEXT.replace("\n", "\r\n"),
        json.dumps({"options": {"a.secret": 'hunt"er', "b": 1}}, indent=1),
        "{options: {sasl.password: &x hunter1, other.password: *x}}",
        "options:\n- password: hunter1\n- password: hunter2\n",
        "options:\n  password: ${PW}\n# the token was hunter1",
        "password: hunter1 # before: hunter2",
        "a: 'no # comment' # secret=hunter1\nb: | # token=hunter2\n  # password\nc: 1",
    ],
)
def test_no_secret_is_left_and_all_come_back(text: str) -> None:
    masked = mask_secrets(text)
    assert "hunt" not in masked.text
    assert masked.kept
    assert restore_secrets(masked.text, masked.kept) == text


def test_what_is_no_secret_stays_and_a_mark_may_move() -> None:
    masked = mask_secrets(TEXT)
    assert "${PW}" in masked.text
    assert "security.protocol: SSL" in masked.text
    assert "# until May:" in masked.text
    first, *rest = masked.text.splitlines()
    edited = "\n".join([first, "lake: file:///data", *rest])
    text = "a: 'no # secret' # a comment\nb: |\n  # the password is in the text\n"
    assert mask_secrets(text).text == text
    assert "sasl.password: hunter2 # why" in restore_secrets(edited, {}, masked.kept)


def test_a_mark_that_nobody_knows_is_refused() -> None:
    with pytest.raises(JobFileInvalid, match=r"kafka\.password .*no longer"):
        restore_secrets('password: "***kept: kafka.password***"', {})


def test_a_text_whose_secrets_cannot_be_found_is_not_shown() -> None:
    with pytest.raises(JobFileInvalid, match="cannot be read as YAML"):
        mask_secrets("password: hunter2\n]")
    assert mask_secrets("jobs: [\n").text == "jobs: [\n"
