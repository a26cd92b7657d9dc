// @ts-check
// Everything here is an addition: pages are read and relayers are paused without it.

import { startLive } from "./live.js";
import { morph } from "./morph.js";
import { startShortcuts } from "./shortcuts.js";
import { startTimes } from "./times.js";
import { startWork } from "./work.js";

const SHORTENED = ".amount[title], code[title]";

/** @param {ParentNode} part */
function revealControls(part) {
  for (const each of part.querySelectorAll("[data-copy], [data-select-all]")) {
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
  } else if (target instanceof HTMLInputElement && target.hasAttribute("data-select-all")) {
    for (const box of document.querySelectorAll("input[name=relayer]")) {
      if (box instanceof HTMLInputElement) box.checked = target.checked;
    }
  }
}

/** Fill a part of a page that takes its time, once or every so many seconds. @param {HTMLElement} part */
async function loadPart(part) {
  if (!document.hidden) await replacePart(part);
  const seconds = Number(part.dataset.loadEvery);
  if (seconds) setTimeout(loadPart, seconds * 1000, part);
}

/** @param {HTMLElement} part */
async function replacePart(part) {
  try {
    const response = await fetch(part.dataset.load ?? "", { headers: { "x-console-refresh": "1" } });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const loaded = page.querySelector("[data-loaded]");
    const shown = part.querySelector("[data-loaded]");
    if (!response.ok || !loaded || !shown) return;
    if ("filled" in part.dataset) morph(shown, loaded);
    else shown.replaceWith(document.adoptNode(loaded)); // the first time, nothing of it has changed
    part.dataset.filled = "";
  } catch {
    // The service is away: what is shown stays.
  }
}

/** What is copied has every digit, and whole addresses. @param {ClipboardEvent} event */
function onCopy(event) {
  const selection = document.getSelection();
  if (!selection || selection.isCollapsed || !event.clipboardData) return;
  const inside = [selection.anchorNode, selection.focusNode].map((node) => node?.parentElement?.closest(SHORTENED));
  let [text, from, exact] = [selection.toString(), 0, ""];
  for (const each of document.querySelectorAll(SHORTENED)) {
    const at = selection.containsNode(each, true) ? text.indexOf(each.textContent ?? "", from) : -1;
    if (at < 0) continue;
    exact += text.slice(from, at) + each.getAttribute("title");
    from = at + (each.textContent ?? "").length;
  }
  if (inside[0] && inside[0] === inside[1]) [exact, text] = [inside[0].getAttribute("title") ?? "", ""];
  if (!exact) return;
  event.clipboardData.setData("text/plain", exact + text.slice(from));
  event.preventDefault();
}

/** Dropping a file on a text field fills it in. @param {DragEvent} event */
async function onDrop(event) {
  const [field, file] = [event.target, event.dataTransfer?.files[0]];
  if (!(field instanceof HTMLTextAreaElement) || !field.hasAttribute("data-drop") || !file) return;
  event.preventDefault();
  field.value = await file.text();
}

/** Typing a new value chooses it. @param {Event} event */
function onInput(event) {
  const field = event.target;
  if (!(field instanceof HTMLInputElement) || !field.dataset.chooses) return;
  const choice = field.form?.querySelector(`input[type=radio][value=${field.dataset.chooses}]`);
  if (choice instanceof HTMLInputElement) choice.checked = true;
}

document.addEventListener("click", onClick);
document.addEventListener("copy", onCopy);
document.addEventListener("input", onInput);
document.addEventListener("drop", onDrop);
revealControls(document);
// On a narrow screen the sections are a row that scrolls.
document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
startShortcuts();
startTimes();
for (const part of document.querySelectorAll("[data-load]")) {
  if (part instanceof HTMLElement) loadPart(part);
}
startWork(() => revealControls(document));
startLive(() => revealControls(document));
