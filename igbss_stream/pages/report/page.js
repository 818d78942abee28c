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
