// Connects the panels, the viewer and the server. The server sends columns: the smallest and the largest of the
// samples in each.
const HEAD = 4 // float64 before the columns of a strip
const ACKNOWLEDGE = 10 // strips
const SPANS = [1, 2, 5, 10, 20, 30, 60]

let live, layout = null, marks = []
const panels = []
const state = {strips: 0, frames: 0, columns: 0, stop: 0, paused: false}

let scheduled = false
const schedule = () => {
  if (scheduled) return
  scheduled = true
  requestAnimationFrame(() => {
    scheduled = false
    for (const panel of panels) panel.draw()
    state.frames += 1
  })
}

const pixels = () => Math.max(1, Math.round(window.devicePixelRatio || 1)) // of a column, on the screen

const wantColumns = () => {
  const wide = Math.ceil(Math.max(...panels.map((panel) => panel.canvas.width)) / pixels())
  if (live && wide > 1 && wide !== live.columns) live.columns = wide
}

const onLayout = () => {
  if (!live.layout) return
  const before = layout
  layout = JSON.parse(live.layout)
  panels.forEach((panel, p) => panel.take(layout.panels[p]))
  if (!before || before.number !== layout.number) panels.forEach((panel) => panel.reset())
  for (const option of $("span").options) option.disabled = Number(option.value) > layout.seconds * 1.01
  if (state.chosen === undefined || state.chosen >= panels[0].names.length) panels[0].choose(0)
  panels.forEach((panel) => { panel.relabel(); panel.all() })
}

const onMarks = () => {
  marks = JSON.parse(live.marks)
  panels.forEach((panel) => panel.all())
}

const onStrip = () => {
  if (!live.strip || !layout) return
  const bytes = Uint8Array.from(atob(live.strip), (one) => one.charCodeAt(0)).buffer
  const [which, first, count] = new Float64Array(bytes, 0, HEAD)
  state.strips += 1
  if (state.strips % ACKNOWLEDGE === 0) live.seen = state.strips
  if (which !== layout.number) return
  let at = HEAD * 8
  for (const panel of panels) {
    const n = panel.names.length * count
    if (!n) continue
    panel.push(first, count, new Float32Array(bytes, at, n), new Float32Array(bytes, at + 4 * n, n))
    at += 8 * n
  }
  state.stop = first + count
  schedule()
}

const onStatus = () => {
  if (!live.status) return
  const {sentence, note, figures, reliability, references} = JSON.parse(live.status)
  listReferences(references)
  panels[0].rate(reliability)
  if ($("sentence").textContent !== sentence) $("sentence").textContent = sentence
  $("note").textContent = note
  const items = figures.map(({name, value, about}) => {
    const item = element("div", {title: about})
    element("dt", {textContent: name}, item)
    element("dd", {textContent: value}, item)
    return item
  })
  $("figures").replaceChildren(...items)
}

const pause = () => {
  state.paused = !state.paused
  live.paused = state.paused
  $("pause").setAttribute("aria-pressed", String(state.paused))
  $("pause").textContent = state.paused ? "Resume" : "Pause"
}

const span = (by) => {
  const allowed = SPANS.filter((one) => !layout || one <= layout.seconds * 1.01)
  const at = allowed.indexOf(Number($("span").value))
  $("span").value = String(allowed[Math.min(Math.max(at + by, 0), allowed.length - 1)])
  live.span = Number($("span").value)
}

const onKey = (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || ["SELECT", "INPUT"].includes(event.target.tagName)) return
  if (event.key === " ") pause()
  else if (event.key === "+" || event.key === "=") panels[0].gain(false)
  else if (event.key === "-") panels[0].gain(true)
  else if (event.key === "x" || event.key === "X") toggle(state.chosen ?? 0)
  else if (event.key === "[") span(-1)
  else if (event.key === "]") span(1)
  else if (event.key.startsWith("Arrow") && event.target === document.body) panels[0].key(event)
  else return
  event.preventDefault()
}

const start = (model) => {
  live = model
  recolour()
  panels.push(new Panel($("panel-0"), "Sources", true), new Panel($("panel-1"), "Channels", false))
  const handlers = {layout: onLayout, marks: onMarks, strip: onStrip, status: onStatus, taken: onTaken, answer: onAnswer}
  for (const [name, act] of Object.entries(handlers)) {
    live.properties[name].change.connect(act)
  }
  $("pause").onclick = pause
  $("pause").onkeyup = (event) => { if (event.key === " ") event.preventDefault() }
  $("span").onchange = () => { live.span = Number($("span").value) }
  document.addEventListener("keydown", onKey)
  startChoosing()
  $("sentence").textContent = ""
  wantColumns()
  onLayout()
  onMarks()
  onStatus()
  live.ready = true
}

const lost = () => {
  $("sentence").textContent = "The page has lost its server: igbss-stream view has ended. Start it again and reload the page."
}

return {start, lost, state, panels, getColours: () => colours}
