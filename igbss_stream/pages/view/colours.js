// Colours of the page, which follow the setting of the system for light or dark. page.css defines them; canvases and
// the plots of Bokeh do not read style sheets. Shares one scope with panel.js and page.js.
const DARK = matchMedia("(prefers-color-scheme: dark)")
const NAMES = ["ink", "soft", "line", "tick", "source", "trace", "chosen", "grid", "gap", "gap-ink", "model", "event", "label"]
const PLOTS = ["spectrum", "weights", "scalp"]
let colours = {}

const readColours = () => {
  const style = getComputedStyle(document.documentElement)
  colours = Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]))
}

const set = (model, values) => { // what the model has of these properties, without a message to the server
  const known = Object.entries(values).filter(([name]) => name in model.properties && model[name] !== null)
  model.setv(Object.fromEntries(known), {sync: false})
}

const colourPlots = () => {
  const {ink, soft, line, tick} = colours
  for (const name of PLOTS) {
    const plot = Bokeh.documents[0].get_model_by_name(name)
    set(plot.title, {text_color: ink})
    for (const axis of [...plot.below, ...plot.left, ...plot.right]) { // axes, and the bar beside the map
      set(axis, {axis_line_color: tick, major_tick_line_color: tick, axis_label_text_color: soft, major_label_text_color: soft})
    }
    for (const one of plot.center) set(one, {grid_line_color: line})
    for (const {glyph} of plot.renderers) {
      const colour = colours[glyph.tags[0]]
      if (colour) set(glyph, {line_color: colour, fill_color: colour})
    }
  }
}

const recolour = () => {
  readColours()
  colourPlots()
  for (const panel of panels) panel.all()
}
DARK.addEventListener("change", recolour)
