"use strict";
// J and K go to the next and the previous section from the current position.
document.addEventListener("keydown", (event) => {
  const step = { j: 1, k: -1 }[event.key.toLowerCase()];
  if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
  const sections = [...document.querySelectorAll("main > section")];
  const tops = sections.map((section) => section.getBoundingClientRect().top);
  const next = step > 0 ? tops.findIndex((top) => top > 20) : tops.findLastIndex((top) => top < -2);
  if (next >= 0) location.hash = sections[next].id;
});
// Mark the visible section in the table of contents.
const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
const watch = new IntersectionObserver((entries) => {
  for (const entry of entries) links.get(entry.target.id)?.classList.toggle("here", entry.isIntersecting);
}, { rootMargin: "-15% 0px -60% 0px" });
document.querySelectorAll("main > section").forEach((section) => watch.observe(section));
// Boxes mark sources; the command takes them out of the channels.
const command = document.getElementById("command");
const boxes = command ? [...document.querySelectorAll(".take input")] : [];
const writeCommand = () => {
  const marked = [...new Set(boxes.filter((box) => box.checked).map((box) => Number(box.value)))].sort((a, b) => a - b);
  const all = new Set(boxes.map((box) => box.value)).size;
  const words = [command.dataset.before, marked.join(","), command.dataset.after].filter(Boolean).join(" ");
  const isPossible = marked.length > 0 && marked.length < all;
  document.getElementById("words").textContent = isPossible ? words : "";
  document.getElementById("copy").hidden = !isPossible;
  document.getElementById("copied").textContent =
    isPossible ? "" : marked.length ? "At least one source has to stay." : "No source is marked.";
};
const copyCommand = async () => {
  const words = document.getElementById("words");
  try {
    await navigator.clipboard.writeText(words.textContent);
  } catch { // the browser allows it only for pages of some addresses
    getSelection().selectAllChildren(words);
    document.execCommand("copy");
  }
  document.getElementById("copied").textContent = "Copied.";
};
if (command) {
  command.hidden = false;
  for (const box of boxes) {
    box.hidden = false;
    box.addEventListener("change", () => {
      for (const other of boxes) if (other.value === box.value) other.checked = box.checked;
      writeCommand();
    });
  }
  document.getElementById("copy").addEventListener("click", copyCommand);
  writeCommand();
}
