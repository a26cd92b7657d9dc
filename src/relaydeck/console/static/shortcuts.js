// @ts-check
// Keys: `/` searches, `?` lists the shortcuts, `g` and a letter goes to a section.

/** @type {Record<string, string>} */
const SECTIONS = { o: "", r: "/relayers", s: "/signers", n: "/notifications", d: "/deliveries", a: "/audit", h: "/health" };
const PATIENCE_MS = 1200;

let goingSince = 0;

/** @param {EventTarget | null} target */
function isTyping(target) {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

function focusSearch() {
  const search = document.querySelector("[data-search-all]");
  if (!(search instanceof HTMLInputElement)) return false;
  search.focus();
  search.select();
  return true;
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
    if (focusSearch()) event.preventDefault();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (event.key === "/") {
    if (focusSearch()) event.preventDefault();
  } else if (event.key === "?") {
    const dialog = document.querySelector("#shortcuts");
    if (dialog instanceof HTMLDialogElement && !dialog.open) dialog.showModal();
  } else if (event.key === "g") {
    goingSince = event.timeStamp;
  } else if (goingSince && event.timeStamp - goingSince < PATIENCE_MS && event.key in SECTIONS) {
    location.assign(`${document.body.dataset.root}${SECTIONS[event.key]}`);
  }
}

export function startShortcuts() {
  document.addEventListener("keydown", onKey);
}
