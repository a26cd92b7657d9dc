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

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (event.key === "/") {
    const search = document.querySelector("[data-search]");
    if (search instanceof HTMLElement) {
      event.preventDefault();
      search.focus();
    } else {
      location.assign(`${document.body.dataset.root}/relayers`);
    }
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
