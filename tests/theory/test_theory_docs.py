"""The chapter on the theory is executed: every block runs, and prints what the page shows."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from idaq.theory import check_names

CHAPTER = Path(__file__).parents[2] / "docs" / "theory.md"
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def text() -> str:
    return CHAPTER.read_text(encoding="utf-8")


def test_every_block_prints_what_the_page_shows(text: str) -> None:
    blocks = BLOCK.findall(text)
    assert len(blocks) == text.count("```python\n") >= 8
    assert text.count("```text\n") == sum(bool(shown) for _, shown in blocks)
    namespace: dict[str, object] = {}
    for code, shown in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(CHAPTER), "exec"), namespace)
        assert printed.getvalue() == shown, f"this block prints something else:\n{code}"


def test_every_check_is_named(text: str) -> None:
    assert [name for name in check_names() if f"`{name}`" not in text] == []


def test_every_figure_exists(text: str) -> None:
    figures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert len(figures) == 3
    assert all((CHAPTER.parent / figure).is_file() for figure in figures)
