"""Chromium without a window, for tests of pages and for their pictures; nothing of it goes to the network."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

CHROMIUM, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
MISSING = (
    "needs Chromium and its driver: apt-get install -y --no-install-recommends chromium chromium-driver"
)
# The second is what Chromium asks for to start as root; the rest keeps it from asking the network, the screen and shared
# memory for anything, and the pictures free of bars.
_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars"
)


def is_there() -> bool:
    return all(map(shutil.which, (CHROMIUM, DRIVER)))


@contextmanager
def browser(
    folder: Path, width: int = 1500, height: int = 1000, *, idle: bool = False
) -> Iterator["Chrome"]:
    """Start a browser whose profile is in a folder of its own; an idle one runs when nothing else wants to."""
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (
        *_FLAGS.split(),
        f"--window-size={width},{height}",
        f"--user-data-dir={folder / 'chromium'}",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    way = {"preexec_fn": _be_idle} if idle else {}
    driver = Chrome(options=options, service=Service(DRIVER, popen_kw=way))
    try:
        yield driver
    finally:
        driver.quit()


def _be_idle() -> None:
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
