// @ts-check
// Everything here is an addition: pages are read and relayers are paused without it.

import { startLive } from "./live.js";
import { startShortcuts } from "./shortcuts.js";
import { startTimes } from "./times.js";
import { startWork } from "./work.js";

/** @param {ParentNode} part */
function revealControls(part) {
  for (const each of part.querySelectorAll("[data-copy], [data-theme-switch], [data-select-all]")) {
    each.removeAttribute("hidden");
  }
}

/** @param {MouseEvent} event */
async function onClick(event) {
  const target = event.target instanceof Element ? event.target.closest("button, input") : null;
  if (!(target instanceof HTMLElement)) return;
  if (target.dataset.copy !== undefined) {
    await navigator.clipboard.writeText(target.dataset.copy);
    target.textContent = "Copied";
  } else if (target.hasAttribute("data-theme-switch")) {
    switchTheme();
  } else if (target instanceof HTMLInputElement && target.hasAttribute("data-select-all")) {
    for (const box of document.querySelectorAll("input[name=relayer]")) {
      if (box instanceof HTMLInputElement) box.checked = target.checked;
    }
  }
}

function switchTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  document.cookie = `relaydeck_theme=${root.dataset.theme}; path=/console; max-age=31536000; samesite=strict`;
}

/** Fill parts of a page that take their time. @param {ParentNode} part */
async function loadParts(part) {
  for (const section of part.querySelectorAll("[data-load]")) {
    if (!(section instanceof HTMLElement) || !section.dataset.load) continue;
    const response = await fetch(section.dataset.load, { headers: { "x-console-refresh": "1" } });
    if (!response.ok) continue;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const loaded = page.querySelector("[data-loaded]");
    if (loaded) section.querySelector("p")?.replaceWith(document.adoptNode(loaded));
  }
}

/** Dropping a file on a text field fills it in. @param {DragEvent} event */
async function onDrop(event) {
  const [field, file] = [event.target, event.dataTransfer?.files[0]];
  if (!(field instanceof HTMLTextAreaElement) || !field.hasAttribute("data-drop") || !file) return;
  event.preventDefault();
  field.value = await file.text();
}

document.addEventListener("click", onClick);
document.addEventListener("drop", onDrop);
revealControls(document);
startShortcuts();
startTimes();
loadParts(document);
startWork(() => revealControls(document));
startLive(() => revealControls(document));
