#!/usr/bin/env python
"""Take the picture of a report: a simulated head is recorded, separated, cleaned of blinks and reported.

.venv/bin/python tools/report_picture.py                 into docs/pictures
.venv/bin/python tools/report_picture.py --out /tmp
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import h5py
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from page_pictures import make_ready, out_option, save

from igbss_stream.playback.simulate import Simulation
from tests.browser import browser

_SECONDS, _RATE, _CHANNELS = 120, 250.0, 19
_WIDTH, _HEIGHT = 1360, 1140
_OPTIONS = ("--bandpass", "1:40", "--exclude-like", "Fp1:0.6", "--report", "--quiet")


def record(path: Path) -> None:
    """Write what an amplifier would have recorded of the head."""
    head = Simulation(_CHANNELS, _RATE, seed=3, montage="10-20")
    stream = head.stream("eeg")
    with h5py.File(path, "w") as file:
        data = head.block(0, round(_SECONDS * _RATE)).astype(np.float32)
        file.create_dataset("data", data=data).attrs.update(
            {"rate": _RATE, "unit": stream.unit or "", "channels": list(stream.channels)}
        )


@click.command()
@out_option
def main(out: Path) -> None:
    """Take the picture of a report."""
    make_ready(out)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        record(folder / "head.h5")
        command = str(Path(sys.executable).parent / "igbss-stream")
        batch = [command, "batch", str(folder / "head.h5"), "-o", str(folder / "sources.h5"), *_OPTIONS]
        subprocess.run(batch, check=True)
        with browser(folder, _WIDTH, _HEIGHT) as driver:
            driver.get(f"file://{folder / 'sources.html'}")
            driver.execute_script(
                "document.documentElement.style.scrollBehavior = 'auto';"
                "document.querySelector('section.source').scrollIntoView()"
            )
            time.sleep(0.5)  # until the list of contents has marked the section
            save(driver.get_screenshot_as_png(), out / "report.png")
    click.echo(f"{out / 'report.png'} is taken")


if __name__ == "__main__":
    main()
