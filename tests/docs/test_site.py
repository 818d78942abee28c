"""The documentation as a site: it is built, needs no network to be read, and a link that leads nowhere ends it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doc_pages import PAGES, ROOT

pytest.importorskip("material", reason="needs the extra docs")


def build(config: Path, site: Path) -> "subprocess.CompletedProcess[str]":
    words = ["build", "--strict", "--config-file", str(config), "--site-dir", str(site)]
    env = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", *words], env=env, capture_output=True, text=True, check=False
    )


def test_the_site_is_built_whole_and_needs_no_network(tmp_path: Path) -> None:
    done = build(ROOT / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == 0, done.stderr
    for page in PAGES[1:]:
        html = (tmp_path / "site" / f"{Path(page).stem}.html").read_text()
        loaded = re.findall(r"<(?:script|img|source|iframe)[^>]* src=\"([^\"]+)\"", html)
        loaded += re.findall(
            r"<link[^>]* rel=\"(?:stylesheet|preconnect|icon)\"[^>]* href=\"([^\"]+)\"", html
        )
        loaded += re.findall(
            r"<link[^>]* href=\"([^\"]+)\"[^>]* rel=\"(?:stylesheet|preconnect|icon)\"", html
        )
        assert loaded
        for address in loaded:
            assert (tmp_path / "site" / address.partition("?")[0]).exists(), address


def test_a_link_that_leads_nowhere_is_told(tmp_path: Path) -> None:
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    with (tmp_path / "docs" / "lsl.md").open("a") as page:
        page.write("\n[nowhere](wire.md#of-no-such-title)\n")
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode == 1
    assert "of-no-such-title" in done.stderr
