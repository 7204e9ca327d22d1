"""Lines of a job's log in words."""

import json

from ashore.fleet.server.pages.output_view import LINES, read_output


def test_lines_are_the_newest_first_and_damaged_ones_are_passed_over(tmp_path):
    path = tmp_path / "job.log"
    line = {"at": "2026-01-02T03:04:05.678Z", "job": "a", "slice": "main", "epoch": 1, "batch": 7}
    landed = json.dumps({**line, "kind": "landed", "rows": 12, "lag": None})
    warned = json.dumps({**line, "kind": "warning", "batch": None, "message": "no broker"})
    path.write_text(f"{landed}\n{{cut\n{warned}\n", "utf-8")
    new, old = read_output(path)
    assert (new.kind, new.words, new.level, new.batch) == ("warning", "no broker", "warn", "")
    assert (old.at, old.words, old.level) == ("2026-01-02 03:04:05 UTC", "rows: 12", "")
    assert old.batch == "7"


def test_no_more_lines_are_shown_than_a_page_has_place_for(tmp_path):
    path = tmp_path / "job.log"
    path.write_text("".join(f'{{"kind": "note", "n": {n}}}\n' for n in range(LINES + 5)), "utf-8")
    found = read_output(path)
    assert len(found) == LINES
    assert found[0].words == f"n: {LINES + 4}"
    assert read_output(tmp_path / "none") == ()
