"""Pages in a real browser: Debian's Chromium, driven by playwright, with axe for accessibility."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium")

# Elsewhere than in CI a browser may be absent; in CI its absence is a failure.
needs_chromium = pytest.mark.skipif(
    not CHROMIUM and not os.environ.get("CI"), reason="no browser here: apt-get install chromium"
)


@contextmanager
def opened(path: Path, **context: Any) -> Iterator[Any]:
    """A page in a window of its own; at the end nothing was complained of or asked for.

    Parameters
    ----------
    path
        The HTML file.
    context
        How the window is: `viewport`, `color_scheme`, `has_touch`, ...
    """
    from playwright.sync_api import sync_playwright

    assert CHROMIUM, "chromium is not installed; .ci/run installs it"
    # A home of its own, or Chromium leaves its settings in that of whoever runs the tests.
    home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    with home, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"], env={**kept, "HOME": home.name}
        )
        # An animation that is half done has the colours of neither state.
        window = browser.new_context(**{"reduced_motion": "reduce", **context})
        page = window.new_page()
        complaints: list[str] = []
        page.on("console", lambda said: complaints.append(f"{said.type}: {said.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda asked: (
                asked.url.startswith(("data:", path.as_uri())) or complaints.append(asked.url)
            ),
        )
        page.goto(path.as_uri())
        yield page
        browser.close()
        assert complaints == []


def serious_findings(page: Any) -> list[str]:
    """What axe finds that keeps people out."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {one['help']}: {[node['html'] for node in one['nodes']]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


def overflows(page: Any) -> bool:
    """Whether one must scroll sideways."""
    wide: bool = page.evaluate("document.documentElement.scrollWidth > innerWidth")
    return wide
