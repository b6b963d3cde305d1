"""The programs in README.md and COOKBOOK.md run."""

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent.parent


def blocks(page):
    text = (HERE / page).read_text()
    for found in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        title = re.findall(r"^#+ (.*)$", text[: found.start()], re.MULTILINE)[-1]
        # Lines of a failure are those of the page.
        yield title, "\n" * text.count("\n", 0, found.start(1)) + found.group(1)


RECIPES = list(blocks("COOKBOOK.md"))


@pytest.mark.parametrize("code", [code for _, code in RECIPES], ids=[title for title, _ in RECIPES])
def test_recipe_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "COOKBOOK.md", "exec"), {"__name__": "recipe"})


def test_readme_runs_from_its_beginning_to_its_end(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "readme"}
    programs = list(blocks("README.md"))
    assert len(programs) >= 5
    for _, code in programs:
        exec(compile(code, "README.md", "exec"), names)
