"""A real Chromium, without a screen."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")


def executable() -> str:
    """Where Chromium is; `make test` installs it where it can."""
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    if found is None:
        reason = "no Chromium on this machine: `apt-get install chromium` (as root) provides it"
        if os.environ.get("IDAQ_REQUIRE_CHROMIUM"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = executable()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Visit:
    """An open page, and everything that went wrong or over the network."""

    page: Page
    problems: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def text(self, selector: str) -> str:
        return self.page.locator(selector).inner_text()

    def column(self, table: str, name: str) -> list[str]:
        """The cells of a table's column, from top to bottom."""
        heads = self.page.locator(f"{table} thead th").all_inner_texts()
        place = [head.strip() for head in heads].index(name) + 1
        return self.page.locator(f"{table} tbody td:nth-child({place})").all_inner_texts()


def visit(
    browser: Browser,
    address: Path | str,
    *,
    width: int = 1200,
    scheme: Literal["light", "dark"] = "light",
) -> Visit:
    """Open a page in a fresh context."""
    size: Any = {"width": width, "height": 900}
    page = browser.new_context(viewport=size, color_scheme=scheme).new_page()
    page.set_default_timeout(20_000)
    seen = Visit(page)
    page.on("pageerror", lambda error: seen.problems.append(str(error)))
    page.on(
        "console",
        lambda message: seen.problems.append(message.text) if message.type == "error" else None,
    )
    page.on("request", lambda request: seen.requests.append(request.url))
    page.goto(address.as_uri() if isinstance(address, Path) else address)
    return seen
