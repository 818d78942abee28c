// One panel of traces: drawing and controls. Each panel has its own order, gain and hidden traces.
// Shares one scope with colours.js and page.js.
const STEPS = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60]
const $ = (id) => document.getElementById(id)
const element = (name, options = {}, parent = null) => {
  const made = Object.assign(document.createElement(name), options)
  if (parent) parent.append(made)
  return made
}
const button = (text, title, parent, act) => {
  const made = element("button", {type: "button", textContent: text, title}, parent)
  made.setAttribute("aria-label", title)
  made.tabIndex = parent.className === "tools" ? -1 : 0
  made.onclick = (event) => { event.stopPropagation(); act() }
  return made
}
const number = (value) => String(Number(value.toPrecision(2)))
const step = (value, up) => { // the next of 1, 2, 5, 10, 20 ...
  const power = 10 ** Math.floor(Math.log10(value) + 1e-9), lead = Math.round(value / power)
  if (up) return (lead < 2 ? 2 : lead < 5 ? 5 : 10) * power
  return (lead > 5 ? 5 : lead > 2 ? 2 : lead > 1 ? 1 : 0.5) * power
}

const clamp = (y, height) => Math.min(Math.max(y, -height), 2 * height)

const clock = (t, every) => {
  const places = every < 0.1 ? 2 : every < 1 ? 1 : 0
  if (layout.t0 === null) return `${t.toFixed(places)} s`
  const date = new Date(Math.round(t * 1000)), two = (value) => String(value).padStart(2, "0")
  const part = places ? "." + String(date.getMilliseconds()).padStart(3, "0").slice(0, places) : ""
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}${part}`
}

class Panel {
  constructor(section, title, isSources) {
    this.isSources = isSources
    this.names = []
    this.order = []
    this.spacing = null // selected by the viewer
    this.reliability = null // of each source, in dB
    const head = element("div", {className: "head"}, section)
    this.title = element("h2", {textContent: title}, head)
    this.about = element("span", {className: "about"}, head)
    this.hiddenButton = button("", "Show hidden traces", head, () => this.showAll())
    this.hiddenButton.hidden = true
    this.scale = element("span", {className: "scale", title: "Distance between rows"}, head)
    button("−", "Decrease the gain", head, () => this.gain(true))
    button("+", "Increase the gain", head, () => this.gain(false))
    button("Fit", "Fit the gain to the visible traces", head, () => { this.spacing = null; this.all() })
    this.bar = element("div", {className: "bar", title: "Scale: the height of the bar is this value"}, section)
    this.barText = element("span", {}, this.bar)
    this.barLine = element("i", {}, this.bar)
    this.bar.hidden = true
    this.labels = element("ul", {className: "labels", tabIndex: 0}, section)
    this.labels.setAttribute("role", "listbox")
    this.labels.setAttribute("aria-label", title)
    this.labels.onkeydown = (event) => this.key(event)
    const place = element("div", {className: "traces"}, section)
    this.canvas = element("canvas", {}, place)
    this.canvas.setAttribute("aria-label", `${title} over time`)
    this.canvas.setAttribute("role", "img")
    const axis = element("div", {className: "axis"}, section)
    this.axis = element("canvas", {}, axis)
    this.nothing = element("p", {className: "nothing", textContent: "No data yet."}, section)
    this.canvas.onclick = (event) => {
      const row = Math.floor(event.offsetY / this.canvas.clientHeight * this.order.length)
      if (row < this.order.length) this.choose(this.order[row])
    }
    this.current = 0
    new ResizeObserver(() => { this.size(); wantColumns() }).observe(place)
  }

  take(spec) { // a layout
    this.about.textContent = spec ? spec.about : ""
    this.nothing.hidden = Boolean(spec)
    if (!spec) { this.names = []; this.order = []; this.relabel(); this.clear(); return }
    if (spec.names.join("\n") !== this.names.join("\n")) {
      this.names = spec.names
      this.order = spec.names.map((_, i) => i)
      this.current = 0
      this.ends = []
    }
    Object.assign(this, {unit: spec.unit, factor: spec.factor, fitted: spec.spacing, middles: spec.middles})
  }

  rate(reliability) { // of a model, or null
    if (JSON.stringify(reliability) === JSON.stringify(this.reliability)) return
    this.reliability = reliability
    this.entitle()
    this.relabel()
  }

  decibels(i) { return this.reliability?.length === this.names.length ? this.reliability[i] : null }

  mark(i, parent) { // writes the reliability of a source after its name
    const value = this.decibels(i) ?? null
    if (value !== null) element("span", {className: value < 0 ? "decibels low" : "decibels", textContent: ` · ${value} dB`}, parent)
  }

  label(i) { return this.isSources ? nameOf(i) || this.names[i] : this.names[i] } // a name that a source was given

  entitle() {
    $("chosen").textContent = this.label(this.current) ?? "No source selected"
    this.mark(this.current, $("chosen"))
  }

  reset() {
    this.capacity = layout.count + 2
    this.low = new Float32Array(this.capacity * this.names.length)
    this.high = new Float32Array(this.capacity * this.names.length)
    this.start = this.stop = null
    this.drawn = null
  }

  push(first, count, low, high) {
    const n = this.names.length
    if (this.stop === null || first !== this.stop) this.start = first
    for (let k = Math.max(0, count - this.capacity); k < count; k++) {
      const at = ((first + k) % this.capacity) * n
      this.low.set(low.subarray(k * n, k * n + n), at)
      this.high.set(high.subarray(k * n, k * n + n), at)
    }
    if (this.drawn !== null && first !== this.stop) this.drawn = null
    this.stop = first + count
    this.start = Math.max(this.start, this.stop - this.capacity)
  }

  get perRow() { return this.spacing ?? this.fitted ?? 1 }

  gain(less) { this.spacing = step(this.perRow, less); this.all() }

  // x coordinate of a position in the stream, in columns; whole pixels, so that a shift does not blur the drawing
  x(column) { return Math.round(column * this.perColumn) - Math.round(this.stop * this.perColumn) + this.edge }

  // half of a line at the very edge would be cut off; a line of odd width fills pixels if centred on them
  get edge() { return this.canvas.width - Math.ceil(this.ratio) + (pixels() % 2) / 2 }

  size() {
    const ratio = this.ratio = window.devicePixelRatio || 1
    for (const canvas of [this.canvas, this.axis]) {
      canvas.width = Math.max(1, Math.round(canvas.clientWidth * ratio))
      canvas.height = Math.max(1, Math.round(canvas.clientHeight * ratio))
    }
    this.relabel()
    this.all()
  }

  clear() {
    this.canvas.getContext("2d").clearRect(0, 0, this.canvas.width, this.canvas.height)
    this.bar.hidden = true
  }

  all() { this.drawn = null; schedule() }

  draw() {
    if (!layout || this.stop === null || this.stop === undefined || !this.names.length) return
    const {canvas} = this, ctx = canvas.getContext("2d", {alpha: true})
    this.perColumn = layout.width > 1 ? pixels() : canvas.width / layout.count
    let from = this.start, left = 0
    if (this.drawn === null) {
      ctx.clearRect(0, 0, canvas.width, canvas.height)
    } else {
      if (this.drawn === this.stop) return
      left = this.x(this.drawn)
      if (left <= 0) { this.drawn = null; this.draw(); return }
      ctx.globalCompositeOperation = "copy"
      ctx.drawImage(canvas, left - this.edge, 0)
      ctx.globalCompositeOperation = "source-over"
      from = this.drawn
    }
    this.background(ctx, left)
    this.lines(ctx, from)
    this.texts(ctx, this.drawn === null ? 0 : left)
    if (this.drawn === null) this.scales()
    this.drawn = this.stop
    this.times()
    state.columns = this.isSources ? this.stop : state.columns
  }

  background(ctx, left) { // the last lines drawn reach beyond the position; what is new there goes beneath them
    const {width, height} = this.canvas
    const split = this.drawn === null ? 0 : Math.floor(left) + Math.ceil(this.ratio)
    for (const [from, to, how] of [[split, width, "source-over"], [0, split, "destination-over"]]) {
      if (to <= from) continue
      ctx.save()
      ctx.beginPath(); ctx.rect(from, 0, to - from, height); ctx.clip()
      ctx.globalCompositeOperation = how
      this.behind(ctx, left)
      ctx.restore()
    }
  }

  behind(ctx, left) { // bands, new models, events and grid lines, right of a position
    const {width, height} = this.canvas, ratio = this.ratio
    for (const mark of marks) {
      const x0 = this.x(mark.start / layout.width), x1 = this.x(mark.stop / layout.width)
      if (mark.kind === "gap") {
        const a = Math.max(left, x0), b = Math.max(x1, x0 + 2 * ratio)
        ctx.fillStyle = colours.gap
        if (b > a) ctx.fillRect(Math.floor(a), 0, Math.floor(b) - Math.floor(a), height)
      } else if (x0 >= left) {
        const isEvent = mark.kind === "event"
        ctx.strokeStyle = isEvent ? colours.event : colours.model
        ctx.lineWidth = (isEvent ? 1 : 1.5) * ratio
        if (!isEvent) ctx.setLineDash([5 * ratio, 4 * ratio])
        ctx.beginPath(); ctx.moveTo(x0, 0); ctx.lineTo(x0, height); ctx.stroke()
        ctx.setLineDash([])
      }
    }
    ctx.fillStyle = colours.grid
    for (const [x] of this.ticks()) if (x >= left && x < width) ctx.fillRect(Math.floor(x), 0, Math.max(1, Math.round(ratio)), height)
  }

  lines(ctx, from) {
    const {height} = this.canvas, n = this.names.length, rows = this.order.length
    const row = height / rows, gain = row / this.perRow
    ctx.lineJoin = "round"
    ctx.lineWidth = (rows > 32 ? 0.9 : 1.1) * this.ratio
    for (const chosen of [false, true]) {
      ctx.strokeStyle = chosen ? colours.chosen : colours.trace
      ctx.beginPath()
      this.order.forEach((i, r) => {
        if ((this.isSources && i === state.chosen) !== chosen) return
        const base = (r + 0.5) * row + this.middles[i] * gain
        const begun = this.drawn !== null && this.ends[i] !== undefined
        let last = begun ? this.ends[i] : NaN // end of the line in the previous column
        if (last === last) ctx.moveTo(this.x(from), last)
        for (let c = from; c < this.stop; c++) {
          const at = (c % this.capacity) * n + i, low = this.low[at], high = this.high[at]
          if (low !== low) { last = NaN; continue }
          const bottom = clamp(base - low * gain, height), top = clamp(base - high * gain, height)
          const up = !(Math.abs(bottom - last) > Math.abs(top - last)) // start at the nearer end
          const x = this.x(c + 1)
          if (last === last) ctx.lineTo(x, up ? bottom : top)
          else ctx.moveTo(x - 0.5, up ? bottom : top)
          last = up ? top : bottom
          ctx.lineTo(x, last)
        }
        this.ends[i] = last
      })
      ctx.stroke()
    }
  }

  texts(ctx, left) { // labels of marks that end right of a position, left of the end of the mark, if there is room
    ctx.font = `${11 * this.ratio}px system-ui, sans-serif`
    ctx.textBaseline = "top"
    ctx.textAlign = "right"
    let free = Infinity
    for (const mark of [...marks].reverse()) { // from the right; a mark without room for its label has only its colour
      const end = this.x(mark.stop / layout.width), x = end - 4 * this.ratio
      if (end <= left || end > this.edge || x > free) continue
      const wide = ctx.measureText(mark.text).width
      ctx.fillStyle = colours.label
      ctx.fillRect(x - wide - 2 * this.ratio, 0, wide + 4 * this.ratio, 15 * this.ratio)
      ctx.fillStyle = mark.kind === "gap" ? colours["gap-ink"] : colours[mark.kind]
      ctx.fillText(mark.text, x, 2 * this.ratio)
      free = x - wide - 8 * this.ratio
    }
  }

  ticks() { // positions and labels of round times
    const seconds = layout.width / layout.rate, wide = this.perColumn / this.ratio / seconds
    const every = STEPS.find((one) => one * wide >= 76) ?? STEPS.at(-1)
    const t0 = layout.t0 === null ? 0 : layout.t0
    const end = t0 + this.stop * seconds, found = []
    for (let k = Math.ceil((end - layout.count * seconds) / every); k * every <= end; k++) {
      found.push([this.x((k * every - t0) / seconds), k * every, every])
    }
    return found
  }

  times() {
    const ctx = this.axis.getContext("2d"), {width, height} = this.axis
    ctx.clearRect(0, 0, width, height)
    ctx.font = `${11 * this.ratio}px system-ui, sans-serif`
    ctx.textAlign = "center"
    ctx.textBaseline = "middle"
    ctx.fillStyle = colours.soft
    for (const [x, t, every] of this.ticks()) {
      const text = clock(t, every), half = ctx.measureText(text).width / 2
      if (x - half >= 0 && x + half <= width) ctx.fillText(text, x, height / 2)
    }
  }

  scales() {
    const row = this.canvas.clientHeight / Math.max(1, this.order.length)
    const unit = this.unit ? ` ${this.unit}` : ""
    const rows = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50].find((f) => f * row >= 50) ?? 100
    const shown = this.factor * this.perRow
    this.barLine.style.height = `${rows * row}px`
    this.barText.textContent = number(rows * shown) + unit
    this.bar.hidden = false
    this.scale.textContent = `${number(shown)}${unit} per row`
  }

  choose(i) {
    this.current = i
    if (this.isSources) {
      state.chosen = i
      live.chosen = i
      showTaken()
    }
    this.relabel()
    this.all()
  }

  move(i, by) {
    const at = this.order.indexOf(i), to = at + by
    if (at < 0 || to < 0 || to >= this.order.length) return
    this.order.splice(at, 1)
    this.order.splice(to, 0, i)
    this.relabel()
    this.all()
  }

  hide(i) {
    if (this.order.length < 2) return
    const at = this.order.indexOf(i)
    this.order = this.order.filter((one) => one !== i)
    if (this.current === i) this.choose(this.order[Math.min(at, this.order.length - 1)])
    this.relabel()
    this.all()
  }

  offer(i, item, row) { // a box that takes a source out of the channels, or puts it back
    item.classList.toggle("out", isOut(i))
    if (this.label(i) !== this.names[i]) item.title = `${this.names[i]}, ${item.title}`
    if (!canChoose() || row < 14) return
    const box = element("input", {type: "checkbox", checked: !isOut(i), tabIndex: -1}, item)
    box.title = isOut(i) ? `Put ${this.label(i)} back into the channels` : `Take ${this.label(i)} out of the channels`
    box.setAttribute("aria-label", box.title)
    box.onclick = (event) => { event.stopPropagation(); event.preventDefault(); toggle(i) }
  }

  showAll() {
    const hidden = this.names.map((_, i) => i).filter((i) => !this.order.includes(i))
    this.order.push(...hidden)
    this.order.sort((a, b) => a - b)
    this.relabel()
    this.all()
  }

  key(event) {
    const at = this.order.indexOf(this.current), by = {ArrowUp: -1, ArrowDown: 1}[event.key]
    if (by && event.altKey) this.move(this.current, by)
    else if (by) this.choose(this.order[Math.min(Math.max(at + by, 0), this.order.length - 1)])
    else if (event.key === "h" || event.key === "H" || event.key === "Delete") this.hide(this.current)
    else return
    event.preventDefault()
    event.stopPropagation()
  }

  relabel() {
    const row = this.canvas.clientHeight / Math.max(1, this.order.length)
    const every = Math.max(1, Math.ceil(9 / Math.max(row, 0.1)))
    this.labels.style.fontSize = `${Math.min(12, Math.max(8, row * 0.95))}px`
    const items = this.order.map((i, r) => {
      const item = element("li", {textContent: this.label(i), id: `${this.isSources ? "source" : "channel"}-row-${i}`})
      item.setAttribute("role", "option")
      item.setAttribute("aria-selected", String(this.isSources ? i === state.chosen : false))
      item.title = this.isSources ? `${this.names[i]}: click to select it` : this.names[i]
      this.mark(i, item)
      if (this.isSources) this.offer(i, item, row)
      if (this.decibels(i) !== null) item.title += ". Reliability: the predicted ratio to the interference of all other sources"
      item.style.height = `${row}px`
      item.style.lineHeight = `${row}px`
      if (r % every && i !== state.chosen) item.style.color = "transparent"
      item.onclick = () => { this.labels.focus({preventScroll: true}); this.choose(i) }
      const tools = element("span", {className: "tools"}, item)
      button("▲", `Move ${this.names[i]} up`, tools, () => this.move(i, -1))
      button("▼", `Move ${this.names[i]} down`, tools, () => this.move(i, 1))
      button("✕", `Hide ${this.names[i]}`, tools, () => this.hide(i))
      return item
    })
    this.labels.replaceChildren(...items)
    this.labels.setAttribute("aria-activedescendant", `${this.isSources ? "source" : "channel"}-row-${this.current}`)
    const hidden = this.names.length - this.order.length
    this.hiddenButton.hidden = hidden === 0
    this.hiddenButton.textContent = `Show ${hidden} hidden`
  }
}
