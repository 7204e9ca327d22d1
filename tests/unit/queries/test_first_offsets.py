"""Where topics begin that a query has never read, from what is typed."""

import pytest

from ashore.errors import JobFileInvalid
from ashore.queries.change.plan import read_begins, require_used


def test_a_policy_is_that_of_each_partition_and_an_offset_that_of_one() -> None:
    begins = read_begins(["clicks=latest", "clicks/0=1200", "my.views/12=0"])
    assert begins == {"clicks": {"": "latest", "0": "1200"}, "my.views": {"12": "0"}}
    assert read_begins([]) == {}


@pytest.mark.parametrize(
    "text", ["clicks", "clicks=newest", "clicks/x=3", "clicks/0=latest", "clicks/0=-1", "=latest"]
)
def test_what_names_no_offset_is_refused(text: str) -> None:
    with pytest.raises(JobFileInvalid, match="names no offset"):
        read_begins([text])


def test_what_is_said_twice_is_refused() -> None:
    with pytest.raises(JobFileInvalid, match="is said twice"):
        read_begins(["clicks/1=3", "clicks/01=4"])


def test_a_topic_that_begins_nowhere_is_refused() -> None:
    require_used({"clicks": {"": "latest"}}, ["clicks", "views"])
    with pytest.raises(JobFileInvalid, match="names clicks"):
        require_used({"clicks": {"": "latest"}}, ["views"])
