// @ts-check
// Follows long work on the server: a bar while it lasts, then its result. Without a script, a link leads to the result.

/** @typedef {{ label: string, done: number, total: number }} Step */

/** @param {HTMLElement} place @param {string} address @param {() => void} after */
function follow(place, address, after) {
  const [label, bar] = [document.createElement("p"), document.createElement("progress")];
  label.textContent = "Starting …";
  bar.setAttribute("aria-label", "Progress");
  place.replaceChildren(label, bar);
  const events = new EventSource(address);
  events.addEventListener("step", (message) => showStep(label, bar, JSON.parse(message.data)));
  events.addEventListener("result", (message) => {
    events.close();
    const page = new DOMParser().parseFromString(JSON.parse(message.data), "text/html");
    place.replaceChildren(...page.querySelectorAll("[data-result]"));
    after();
  });
  // The page itself says what is wrong.
  const leave = () => { events.close(); location.assign(address); };
  events.addEventListener("failed", leave);
  events.addEventListener("error", leave);
}

/** @param {HTMLElement} label @param {HTMLProgressElement} bar @param {Step} step */
function showStep(label, bar, step) {
  if (step.label) label.textContent = `${step.label} …`;
  if (step.total) {
    [bar.max, bar.value] = [step.total, step.done];
  } else {
    bar.removeAttribute("value");
  }
}

/** @param {() => void} after */
export function startWork(after) {
  for (const place of document.querySelectorAll("[data-work]")) {
    if (place instanceof HTMLElement) follow(place, place.dataset.work ?? "", after);
  }
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a[data-work-into]") : null;
    if (!(link instanceof HTMLAnchorElement) || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const place = document.getElementById(link.dataset.workInto ?? "");
    if (!place) return; // the page of the result itself: load it again
    event.preventDefault();
    follow(place, link.href, after);
  });
}
