// Take sources out of the channels, put them back and name them: the page asks, the daemon applies it, and the page
// shows what the stream states. Shares one scope with colours.js, panel.js and page.js.
const TOKEN = "igbss-token" // of this tab, until it is closed
let taken = {excluded: null, names: [], start: 0, undo: 0, chosen: false}
let asked = 0, waiting = null // number of requests, and the one that needs a token

const isOut = (i) => Boolean(taken.excluded?.includes(i))
const nameOf = (i) => taken.names.find(([source]) => source === i)?.[1] ?? ""
const canChoose = () => Boolean(live?.control) && taken.excluded !== null

const askFor = (action) => { // sends a request, once there is a token
  const token = sessionStorage.getItem(TOKEN) ?? ""
  if (live.locked && !token) {
    waiting = action
    $("token-form").hidden = false
    $("token").focus()
    return
  }
  asked += 1
  waiting = action
  $("choose-note").textContent = ""
  live.request = JSON.stringify({number: asked, token, action})
}

const onAnswer = () => {
  if (!live.answer) return
  const {number, problem, wrong} = JSON.parse(live.answer)
  if (number !== asked) return
  $("choose-note").textContent = problem && `Not changed: ${problem}.`
  if (!wrong) waiting = null
  if (!wrong || !live.locked) return
  sessionStorage.removeItem(TOKEN)
  $("token-form").hidden = false
  $("token").focus()
}

const onToken = (event) => {
  event.preventDefault()
  const token = $("token").value.trim()
  if (!token) return
  sessionStorage.setItem(TOKEN, token)
  $("token").value = ""
  $("token-form").hidden = true
  if (waiting) askFor(waiting)
}

const toggle = (i) => {
  if (canChoose()) askFor(isOut(i) ? {remove: [i]} : {add: [i]})
}

const onTaken = () => {
  if (live.taken) taken = JSON.parse(live.taken)
  showTaken()
}

const describeTaken = () => {
  if (taken.excluded === null) return "The stream has no cleaned channels: add a section clean to it in the configuration of the daemon"
  if (!taken.excluded.length) return "All sources are in the channels"
  const listed = taken.excluded.slice(0, 8).map((i) => nameOf(i) ? `${nameOf(i)} (source-${i})` : `source-${i}`).join(", ")
  const more = taken.excluded.length > 8 ? ` and ${taken.excluded.length - 8} more` : ""
  return `Taken out: ${listed}${more}${taken.chosen ? "" : ", as configured"}`
}

const showTaken = () => {
  const i = state.chosen ?? 0
  $("taken").hidden = !live.control && !taken.excluded?.length
  $("shown-label").hidden = taken.excluded === null
  $("taken-text").textContent = describeTaken()
  $("undo").hidden = !live.control
  $("undo").disabled = !taken.undo
  $("choose").hidden = !live.control
  $("take").disabled = !canChoose()
  $("take").textContent = isOut(i) ? "Put back" : "Take out"
  if (document.activeElement !== $("name")) $("name").value = nameOf(i)
  for (const panel of panels) if (panel.isSources) { panel.entitle(); panel.relabel(); panel.all() }
}

const rename = () => {
  const i = state.chosen ?? 0, name = $("name").value.trim()
  if (name !== nameOf(i)) askFor({names: [[i, name]]})
}

const display = () => {
  const hertz = (id) => Number($(id).value) || null
  live.display = JSON.stringify({
    highpass: hertz("highpass"), lowpass: hertz("lowpass"), notch: hertz("notch"),
    reference: $("reference").value, shown: $("shown").value,
  })
}

const listReferences = (names) => { // channels that can be subtracted from the others
  if (names.join("\n") === [...$("reference").options].slice(2).map((one) => one.value).join("\n")) return
  const chosen = $("reference").value
  for (const one of [...$("reference").options].slice(2)) one.remove()
  for (const name of names) element("option", {value: name, textContent: name}, $("reference"))
  $("reference").value = names.includes(chosen) || chosen === "average" ? chosen : ""
}

const startChoosing = () => {
  $("undo").onclick = () => askFor({undo: true})
  $("take").onclick = () => toggle(state.chosen ?? 0)
  $("token-form").onsubmit = onToken
  $("token-cancel").onclick = () => { waiting = null; $("token-form").hidden = true }
  $("name").onchange = rename
  $("name").onkeydown = (event) => { if (event.key === "Enter") $("name").blur() }
  for (const id of ["highpass", "lowpass", "notch", "reference", "shown"]) $(id).onchange = display
  onTaken()
}
