"""Notes: many processes that ask for the same one."""

from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from threading import Barrier

import pytest

from ashore.errors import ServiceError
from ashore_lab.services.notes import choose_once, read_note, write_note

ASKING = 8


def test_all_who_choose_at_once_have_the_choice_of_one(tmp_path: Path) -> None:
    path, numbers, together = tmp_path / "new" / "note.json", count(1), Barrier(ASKING)

    def choose() -> dict[str, int]:
        together.wait()  # all have seen that there is none
        return {"port": next(numbers)}

    with ThreadPoolExecutor(ASKING) as pool:
        asked = [pool.submit(choose_once, path, ("port",), choose) for _ in range(ASKING)]
        notes = [each.result() for each in asked]

    assert notes == [read_note(path, ("port",))] * ASKING
    assert [each.name for each in path.parent.iterdir()] == ["note.json"]


def test_what_was_chosen_stays(tmp_path: Path) -> None:
    write_note(tmp_path / "note.json", {"port": 1})
    assert choose_once(tmp_path / "note.json", ("port",), lambda: {"port": 2}) == {"port": 1}


def test_writers_at_once_leave_a_whole_note(tmp_path: Path) -> None:
    path = tmp_path / "note.json"
    with ThreadPoolExecutor(ASKING) as pool:
        list(pool.map(lambda number: write_note(path, {"pid": number}), range(200)))
    assert (read_note(path, ("pid",)) or {})["pid"] in range(200)
    assert [each.name for each in tmp_path.iterdir()] == ["note.json"]


def test_a_damaged_note_is_named(tmp_path: Path) -> None:
    path = tmp_path / "note.json"
    path.write_text("{", "utf-8")
    with pytest.raises(ServiceError, match="damaged"):
        choose_once(path, ("port",), lambda: {"port": 1})
    path.write_text("{}", "utf-8")
    with pytest.raises(ServiceError, match="damaged"):
        choose_once(path, ("port",), lambda: {"port": 1})
