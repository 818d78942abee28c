"""Contrast and size of the texts of a page in a browser, as WCAG 2 defines contrast."""

from typing import Any

MIN_CONTRAST = 4.5  # of text, level AA
SCHEMES = ("light", "dark")

# Texts are in elements with a text of their own, and are painted with `color`, or `fill` in SVG. What is behind them is
# the background of the nearest ancestors, as far as they are transparent.
_SCRIPT = """
const parse = (text) => { const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number); return [r, g, b, a] }
const over = (top, under) => [0, 1, 2].map((i) => top[3] * top[i] + (1 - top[3]) * under[i]).concat([1])
const canvas = document.createElement("canvas").getContext("2d")
const resolve = (name) => { canvas.fillStyle = name; const hex = canvas.fillStyle
  return hex[0] === "#" ? [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)).concat([1]) : parse(hex) }
const light = (c) => { const [r, g, b] = c.slice(0, 3).map((v) => v / 255).map((v) =>
  v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b }
const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05) }
const behind = (node) => {
  const found = []
  for (let at = node; at; at = at.parentElement) {
    const colour = parse(getComputedStyle(at).backgroundColor)
    found.push(colour)
    if (colour[3] === 1) break
  }
  return found.reverse().reduce((under, top) => over(top, under), resolve("Canvas"))
}
"""
_TEXTS = (
    _SCRIPT
    + """
const found = []
for (const node of document.body.querySelectorAll("*")) {
  const own = [...node.childNodes].filter((one) => one.nodeType === 3).map((one) => one.textContent).join("").trim()
  const style = getComputedStyle(node), box = node.getBoundingClientRect()
  if (!own || !box.width || style.visibility === "hidden" || ["SCRIPT", "STYLE", "title", "OPTION"].includes(node.tagName)) continue
  const colour = parse(node instanceof SVGElement ? style.fill : style.color)
  if (!colour[3]) continue
  const under = behind(node), scale = node instanceof SVGElement ? node.getScreenCTM().a || Math.abs(node.getScreenCTM().b) : 1
  found.push([own.slice(0, 40), contrast(over(colour, under), under), parseFloat(style.fontSize) * scale, node.className.baseVal ?? node.className])
}
return found
"""
)
_COLOURS = (
    _SCRIPT + "return arguments[0].map(([a, b]) => contrast(over(resolve(a), resolve(b)), resolve(b)))"
)


def prefer(driver: Any, scheme: str) -> None:
    """Make a browser prefer light or dark pages."""
    feature = {"name": "prefers-color-scheme", "value": scheme}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def resize(driver: Any, width: int, height: int = 1000, ratio: float = 1) -> None:
    """Give a page a width in CSS pixels, which windows cannot have below some 500."""
    size = {"width": width, "height": height, "deviceScaleFactor": ratio, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def read_texts(driver: Any) -> list[tuple[str, float, float, str]]:
    """Return each visible text with its contrast, its size in pixels of the screen and its CSS class."""
    return [tuple(one) for one in driver.execute_script(_TEXTS)]


def compute_contrasts(driver: Any, pairs: list[tuple[str, str]]) -> list[float]:
    """Return the contrasts of colours in front of others, both as CSS writes them."""
    return list(driver.execute_script(_COLOURS, pairs))
