"""Results of test cases as other tools read them."""

from xml.etree import ElementTree as ET

from ashore.cli.cases import junit_xml
from ashore.jobs.events import CaseEnded, decode_event, encode_event
from ashore.jobs.failure import Failed

PASSED = CaseEnded("counts", "a.yaml:2", 1200, ())
BAD = CaseEnded("is < late", "a.yaml:9", 300, ("missing: {}", "not expected: {}"))


def test_a_case_that_failed_is_a_failure() -> None:
    suite = ET.fromstring(junit_xml([PASSED, BAD], 2, None))
    assert suite.attrib == {"name": "ashore", "tests": "2", "failures": "1", "errors": "0"}
    first, second = suite
    assert (first.attrib["classname"], first.attrib["time"]) == ("a.yaml", "1.200")
    assert second.attrib["name"] == "is < late"
    failure = second.find("failure")
    assert failure is not None
    assert failure.text == "missing: {}\nnot expected: {}\na.yaml:9"


def test_cases_that_did_not_run_are_an_error() -> None:
    failed = Failed(2, "query-refused", "no such column", None)
    assert ET.fromstring(junit_xml([PASSED], 2, failed)).attrib["errors"] == "1"
    assert ET.fromstring(junit_xml([PASSED], 2, None)).attrib["errors"] == "1"


def test_an_event_is_what_was_told() -> None:
    assert decode_event(encode_event(BAD)) == BAD
