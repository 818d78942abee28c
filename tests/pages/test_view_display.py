"""Test how the live page looks: in light and dark, and that its traces have no holes."""

import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import browser
from tests.contrast import MIN_CONTRAST, SCHEMES, compute_contrasts, prefer, read_texts, resize
from tests.pages.live_page import Open, opened
from tests.waiting import until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not browser.is_there(), reason=browser.MISSING),
]

SCRIPTS = ("colours.js", "panel.js", "choose.js", "page.js")
LIGHTNESS = {"light": (200, 255), "dark": (0, 60)}  # mean grey of a picture of the page


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    learning = "learning: {first: 4, window: 4, every: null}"
    with opened(tmp_path_factory.mktemp("page"), learning, control=True) as shared:
        until(lambda: shared.figures().get("model") == "1")
        shared.sender.lose(100)
        until(lambda: shared.figures()["lost"] == "100")
        shared.click("#take")  # shows the form for the token
        yield shared


@pytest.mark.jit
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_texts_have_contrast(page: Open, scheme: str, width: int) -> None:
    resize(page.driver, width)
    prefer(page.driver, scheme)
    faint = [text for text in read_texts(page.driver) if text[1] < MIN_CONTRAST]
    assert faint == []
    assert page.js("document.documentElement.scrollWidth") == width


@pytest.mark.jit
@pytest.mark.parametrize("scheme", SCHEMES)
def test_plots_and_canvases_follow_the_scheme(page: Open, scheme: str, tmp_path: Path) -> None:
    from PIL import Image, ImageStat

    resize(page.driver, 1280)
    prefer(page.driver, scheme)
    wanted = "getComputedStyle(document.documentElement).getPropertyValue('--trace').trim()"
    until(
        lambda: page.js(f"igbssView.getColours().trace === {wanted}")
    )  # the browser reports it in its next frame
    frames = page.js("igbssView.state.frames")
    until(lambda: page.js("igbssView.state.frames") >= frames + 2)
    card = page.js("getComputedStyle(document.querySelector('.panel')).backgroundColor")
    colours = page.js("igbssView.getColours()")
    texts = [
        (colours[name], card) for name in ("ink", "soft", "trace", "chosen", "source", "model", "event")
    ]
    texts += [(colours["gap-ink"], colours["gap"]), (colours["trace"], colours["gap"])]
    plots = page.js(
        "['spectrum', 'weights', 'scalp'].map(n => Bokeh.documents[0].get_model_by_name(n)).flatMap(p =>"
        "[p.title.text_color, ...[...p.below, ...p.left, ...p.right].flatMap(a =>"
        "[a.major_label_text_color, a.axis_label_text_color ?? a.major_label_text_color])])"
    )
    assert len(plots) > 10
    texts += [(colour, card) for colour in plots]
    contrasts = compute_contrasts(page.driver, texts)
    assert [pair for pair, got in zip(texts, contrasts, strict=True) if got < MIN_CONTRAST] == []
    picture = tmp_path / f"{scheme}.png"
    page.driver.save_screenshot(str(picture))
    low, high = LIGHTNESS[scheme]
    with Image.open(picture) as image:
        assert low <= ImageStat.Stat(image.convert("L")).mean[0] <= high
    trace = page.js(
        "(() => { const c = igbssView.panels[0].canvas, d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        "const n = {}; for (let i = 0; i < d.length; i += 4) if (d[i + 3] === 255) {"
        "const k = `rgb(${d[i]}, ${d[i + 1]}, ${d[i + 2]})`; n[k] = (n[k] || 0) + 1 }"
        "return Object.entries(n).sort((a, b) => b[1] - a[1]).slice(0, 12).map(e => e[0]) })()"
    )
    same = compute_contrasts(page.driver, [(colours["trace"], colour) for colour in trace])
    assert min(same) < 1.05, (colours, trace)  # the traces on the canvas have the colour of the scheme


def test_the_page_states_its_schemes_before_it_loads_anything() -> None:
    text = files("igbss_stream.pages.view").joinpath("page.html").read_text("utf-8")
    assert text.index("preamble") < text.index('<meta name="color-scheme" content="light dark">')
    assert text.index("/* page.css */") < text.index("endblock", text.index("preamble"))
    assert text.index("endblock", text.index("preamble")) < text.index("<script>")


# A page with the scripts of the live page and nothing behind them. Steps of 1 to 7 columns are drawn one by one. Then each
# column of pixels must contain a line, and about as much ink as if everything were drawn in one go: where steps meet, the
# edges of lines are smoothed twice, which leaves 0.57 of the faintest column of a dense trace, and 0.78 of a line.
HARNESS = """<!DOCTYPE html><meta charset="utf-8"><style>STYLE</style>
<div id="view" style="width: 900px; height: 600px; min-height: 0">
<p id="sentence"></p><dl id="figures"></dl><button id="pause"></button>
<select id="span"><option>1</option></select><p id="note"></p><h2 id="chosen"></h2>
<main><section class="panel" id="panel-0"></section><section class="panel" id="panel-1"></section></main></div>
<div hidden>CHOICE</div>
<script>
const nothing = {properties: {}, setv() {}}
window.Bokeh = {documents: [{get_model_by_name: () => ({title: nothing, below: [], left: [], right: [], center: [], renderers: []})}]}
window.igbssView = (() => {
SCRIPT
})()
const properties = Object.fromEntries(["layout", "marks", "strip", "status", "taken", "answer"].map((n) => [n, {change: {connect() {}}}]))
window.live = {properties, layout: JSON.stringify(LAYOUT), marks: JSON.stringify(MARKS), strip: "", status: ""}
igbssView.start(live)
</script>"""
CHOICE = dict.fromkeys(["highpass", "lowpass", "notch", "reference", "shown"], "select") | dict.fromkeys(
    ["taken", "taken-text", "undo", "token-form", "token-cancel", "choose", "take", "name", "shown-label"],
    "b",
)
DRAW = """
const [half, steps, gap] = arguments, panel = igbssView.panels[0], canvas = panel.canvas
const first = 1000
panel.reset()
let stop = first
for (let k = 0; stop < first + steps; k++) {
  const n = [1, 3, 5, 7, 2][k % 5]
  const value = (v) => Float32Array.from({length: n}, (_, i) => stop + i >= gap[0] && stop + i < gap[1] ? NaN : v)
  panel.push(stop, n, value(-half), value(half))
  panel.draw()
  stop += n
}
const {width, height} = canvas
const read = () => canvas.getContext("2d").getImageData(0, 0, width, height).data
let data = read()
const ink = getComputedStyle(document.documentElement).getPropertyValue("--chosen").trim()
const wanted = [1, 3, 5].map((i) => parseInt(ink.slice(i, i + 2), 16))
const pixel = (x, y) => [0, 1, 2].map((i) => {
  const at = 4 * (y * width + x), alpha = data[at + 3] / 255
  return alpha * data[at + i] + (1 - alpha) * 255
})
const inked = (x) => { // pixels of ink in a column: how far each is from its background towards the colour of the trace
  const under = pixel(x, Math.floor(0.9 * height)), way = wanted.map((c, i) => c - under[i])
  const length = way.reduce((sum, v) => sum + v * v, 0)
  let sum = 0
  for (let y = Math.floor(0.2 * height); y < 0.8 * height; y++) {
    sum += pixel(x, y).reduce((dot, v, i) => dot + (v - under[i]) * way[i], 0) / length
  }
  return sum
}
const left = Math.max(0, Math.ceil(panel.x(first))), right = Math.floor(panel.x(stop))
const columns = Array.from({length: right - left}, (_, k) => left + k) // the line ends within the one after them
const stepwise = columns.map(inked)
panel.drawn = null
panel.draw() // everything, in one go
data = read()
const whole = columns.map(inked)
const lost = [panel.x(gap[0]) - 2, panel.x(gap[1]) + 2]
const drawn = columns.map((x, k) => [x, stepwise[k], whole[k]]).filter(([x]) => x < lost[0] || x > lost[1])
return {
  holes: drawn.filter(([, step, all]) => step < 0.5 * all || step < 0.65 * 1.1 * panel.ratio),
  columns: drawn.length, perColumn: panel.perColumn, lines: panel.ticks().length,
}
"""
RATE, COUNT = 250.0, 611  # columns, which do not fill whole pixels
GAP = (1700, 1731)
EVENT = 2700


def build_harness(broken: bool = False) -> str:
    """Return the page for `DRAW`; a broken one draws its background over the newest column of a trace."""
    folder = files("igbss_stream.pages.view")
    script = "\n".join(folder.joinpath(name).read_text("utf-8") for name in SCRIPTS)
    if broken:
        assert script.count("this.background(ctx, left)\n") == 1
        script = script.replace("this.background(ctx, left)\n", "this.behind(ctx, left)\n")
    panel = {"about": "", "names": ["a"], "unit": "", "factor": 1, "spacing": 4.0, "middles": [0.0]}
    layout = {"number": 1, "width": 1, "count": COUNT, "rate": RATE, "t0": None, "seconds": 10}
    marks = [
        {"kind": "gap", "start": GAP[0], "stop": GAP[1], "text": "lost"},
        {"kind": "model", "start": 1500, "stop": 1500, "text": "model 2"},
        {"kind": "event", "start": EVENT, "stop": EVENT, "text": "square"},
    ]
    parts = {
        "CHOICE": "".join(f'<{name} id="{one}"></{name}>' for one, name in CHOICE.items()),
        "STYLE": folder.joinpath("page.css").read_text("utf-8"),
        "SCRIPT": script,
        "LAYOUT": json.dumps(layout | {"panels": [panel]}),
        "MARKS": json.dumps(marks),
    }
    text = HARNESS
    for name, part in parts.items():
        text = text.replace(name, part, 1)
    return text


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with browser.browser(tmp_path_factory.mktemp("browser")) as driver:
        yield driver


def draw(driver: Any, folder: Path, half: float, *, ratio: float, broken: bool = False) -> dict[str, Any]:
    path = folder / "panel.html"
    path.write_text(build_harness(broken), encoding="utf-8")
    resize(driver, 1000, 700, ratio)
    driver.get(f"file://{path}")
    until(lambda: driver.execute_script("return igbssView.panels[0].canvas.width > 400"))
    driver.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))"
    )
    return dict(driver.execute_script(DRAW, half, 2000, GAP))


HALVES = pytest.mark.parametrize("half", [0.0, 1.0], ids=["constant", "dense"])


@HALVES
@pytest.mark.parametrize("ratio", [1, 1.25, 1.5, 2, 3])
def test_traces_have_no_holes(chromium: Any, tmp_path: Path, ratio: float, half: float) -> None:
    found = draw(chromium, tmp_path, half, ratio=ratio)
    assert found["lines"] >= 4
    assert found["columns"] > 400
    assert found["perColumn"] % 1 != 0
    assert found["holes"] == []


@HALVES
def test_the_check_finds_the_holes_of_lines_painted_over_a_trace(
    chromium: Any, tmp_path: Path, half: float
) -> None:
    assert draw(chromium, tmp_path, half, ratio=1, broken=True)["holes"] != []


@pytest.mark.parametrize("ratio", [1, 2])
def test_events_are_lines_in_their_colour(chromium: Any, tmp_path: Path, ratio: float) -> None:
    """Over the whole height, beside which nothing is drawn."""
    draw(chromium, tmp_path, 0.0, ratio=ratio)
    find = (
        "const [event] = arguments, panel = igbssView.panels[0], {width, height} = panel.canvas;"
        "const x = Math.floor(panel.x(event)), ctx = panel.canvas.getContext('2d');"
        "const colour = (x, y) => [...ctx.getImageData(x, Math.floor(y * height), 1, 1).data];"
        "return [igbssView.getColours().event, [0.2, 0.4, 0.6, 0.9].map(y => colour(x, y)), colour(x + 6, 0.9)]"
    )
    wanted, line, beside = chromium.execute_script(find, EVENT)
    red, green, blue = (int(wanted[k : k + 2], 16) for k in (1, 3, 5))
    for pixel in line:
        assert np.abs(np.subtract(pixel[:3], (red, green, blue))).max() < 40
        assert pixel[3] > 100
    assert beside[3] == 0
