"""Test how a report looks: in light and dark, on a telephone and on a desk."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from igbss_stream.cli import main
from tests import browser
from tests.commands import SYSTEMATIC
from tests.contrast import MIN_CONTRAST, SCHEMES, prefer, read_texts, resize
from tests.pages.test_report import channels, written

pytestmark = [
    pytest.mark.jit,
    pytest.mark.browser,
    pytest.mark.skipif(not browser.is_there(), reason=browser.MISSING),
]

MONTAGE = (
    "Fp1", "EOG", "C3", "C4", "O1", "O2", "F3", "F4", "F7", "F8", "Fz", "Cz", "Pz", "P3", "P4", "T7", "T8",
    "P7", "P8", "Fp2", "AF3", "AF4", "FC1", "FC2", "a channel with a long name",
)  # fmt: skip
SIZES = ((390, 844), (1280, 900))


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write a report with maps, gaps, marks and cleaning, one of fitted windows, and one without a map."""
    folder = tmp_path_factory.mktemp("reports")
    gaps = [(700, 700, 100, b"missing"), (1500, 1600, 50, b"lost")]
    recordings = {
        "many": written(folder / "many.h5", channels(3000, len(MONTAGE)), MONTAGE, gaps=gaps),
        "windows": written(folder / "windows.h5", channels()),
        "sensors": written(folder / "sensors.h5", channels(), tuple("ABCDEF")),
    }
    options = {
        "many": ("--exclude", "1"),
        "windows": ("--latent-mass", "0.05", "--window", "0.4", "--max-iter", "7"),
        "sensors": (),
    }
    for name, path in recordings.items():
        words = ["batch", path, "-o", folder / f"{name}-out.h5", "--report", *SYSTEMATIC, *options[name]]
        result = CliRunner().invoke(main, [str(word) for word in words])
        assert result.exit_code == 0, result.output
    return {name: folder / f"{name}-out.html" for name in recordings}


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with browser.browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.mark.parametrize("name", ["many", "windows"])
@pytest.mark.parametrize("size", SIZES, ids=["telephone", "desk"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_texts_can_be_read(
    driver: Any, reports: dict[str, Path], name: str, size: tuple[int, int], scheme: str
) -> None:
    resize(driver, *size)
    prefer(driver, scheme)
    driver.get(f"file://{reports[name]}")
    texts = read_texts(driver)
    assert len(texts) > 100
    assert [text for text in texts if text[1] < MIN_CONTRAST] == []
    small = [text for text in texts if text[2] < 12]
    assert [text for text in small if size[0] == 390 or "dense" not in text[3]] == []
    assert driver.execute_script("return document.documentElement.scrollWidth") == size[0]
    assert driver.get_log("browser") == []


@pytest.mark.parametrize("size", SIZES, ids=["telephone", "desk"])
def test_numbers_of_axes_do_not_overlap(
    driver: Any, reports: dict[str, Path], size: tuple[int, int]
) -> None:
    resize(driver, *size)
    for path in reports.values():
        driver.get(f"file://{path}")
        found = driver.execute_script(
            """
            const wrong = []
            for (const plot of document.querySelectorAll("svg.plot")) {
              const boxes = [...plot.querySelectorAll("text")].map((t) => [t.textContent, t.getBoundingClientRect()])
                .filter(([, b]) => b.width)
              boxes.forEach(([a, p], i) => boxes.slice(i + 1).forEach(([b, q]) => {
                if (p.left < q.right - 1 && q.left < p.right - 1 && p.top + 3 < q.bottom - 3 && q.top + 3 < p.bottom - 3)
                  wrong.push([plot.getAttribute("aria-label").slice(0, 60), a, b])
              }))
              for (const [text, box] of boxes) if (box.left < 0 || box.right > innerWidth) wrong.push(["cut", text])
            }
            return wrong
            """
        )
        assert found == []


def test_plots_fill_their_width_and_wide_tables_scroll_alone(driver: Any, reports: dict[str, Path]) -> None:
    resize(driver, *SIZES[0])
    driver.get(f"file://{reports['many']}")
    shares = driver.execute_script(
        "return [...document.querySelectorAll('.plot')].map(p =>"
        "p.getBoundingClientRect().width / p.closest('section').clientWidth)"
    )
    assert len(shares) > 3 * len(MONTAGE)
    assert min(shares) > 0.6
    assert driver.execute_script(
        "return [...document.querySelectorAll('table')].every(t => ['auto', 'scroll'].includes("
        "getComputedStyle(t.parentElement).overflowX))"
    )
    box = "document.querySelector('#sources .wide')"
    assert driver.execute_script(f"return {box}.scrollWidth > {box}.clientWidth")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_first_paint_has_the_scheme(driver: Any, reports: dict[str, Path], scheme: str) -> None:
    html = reports["windows"].read_text(encoding="utf-8")
    assert html.index('<meta name="color-scheme" content="light dark">') < html.index("<style>")
    resize(driver, *SIZES[1])
    prefer(driver, scheme)
    driver.get(f"file://{reports['windows']}")
    light = driver.execute_script(
        "return getComputedStyle(document.body).backgroundColor === 'rgb(248, 250, 252)'"
    )
    assert light == (scheme == "light")
    driver.execute_script("document.querySelector('style').remove(); document.body.replaceChildren()")
    from PIL import Image

    path = reports["windows"].with_suffix(".png")
    driver.save_screenshot(
        str(path)
    )  # of a page without style, as a browser paints it before it has read one
    with Image.open(path) as image:
        assert bool(np.asarray(image.convert("L")).max() > 200) == light


def test_a_report_is_printed_in_light_colours(driver: Any, reports: dict[str, Path]) -> None:
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": features})
    try:
        driver.get(f"file://{reports['windows']}")
        ink = driver.execute_script("return getComputedStyle(document.body).color")
        assert ink == "rgb(31, 41, 55)"
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
