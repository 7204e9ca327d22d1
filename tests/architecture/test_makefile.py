"""`make test` runs every folder of tests."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_make_test_leaves_no_folder_out():
    text = (ROOT / "Makefile").read_text()
    (fast,) = re.findall(r"^FAST := (.*)$", text, re.MULTILINE)
    recipe = text[text.index("\ntest:") : text.index("\ndemo:")].replace("$(FAST)", fast)
    folders = {each.parent.relative_to(ROOT).parts[1] for each in ROOT.glob("tests/**/test_*.py")}
    assert folders == set(re.findall(r"tests/(\w+)", recipe))
