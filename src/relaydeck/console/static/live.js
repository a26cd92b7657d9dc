// @ts-check
// What changes on the server changes on the page, without losing scroll, focus or a form that is being filled in.

import { morph } from "./morph.js";

const LEAST_MS = 1000; // between two refreshes
const POLL_MS = 15000; // without a stream
const SILENCE_MS = 45000; // the service ends a stream after 20 s: without a word for longer, two are missing

let shown = "";
let refreshing = false;
let wanted = "";
let missed = 0; // updates in a row
let heardAt = Date.now();
/** @type {() => void} */
let afterRefresh = () => {};

async function refresh() {
  if (refreshing || document.hidden) return;
  refreshing = true;
  try {
    const response = await fetch(location.href, { headers: { "x-console-refresh": "1" } });
    if (response.status === 401) return location.reload(); // leads to the sign-in, and back to this page
    if (response.ok) hear();
    else miss();
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const [old, now] = [document.querySelector("main"), page.querySelector("main")];
    if (response.ok && old && now) {
      morph(old, now);
      shown = page.body.dataset.revision ?? shown;
      afterRefresh();
    }
  } catch {
    miss(); // the next message or poll tries again
  } finally {
    setTimeout(onIdle, LEAST_MS);
  }
}

function hear() {
  [missed, heardAt] = [0, Date.now()];
  document.querySelector("#stale")?.remove();
  document.body.classList.remove("stale");
}

/** After two missed updates the page says so, instead of looking as if it were current. */
function miss() {
  missed += 1;
  if (missed === 1) heardAt = Date.now();
  if (missed < 2 || document.querySelector("#stale")) return;
  const bar = document.createElement("p");
  bar.id = "stale";
  bar.className = "warning";
  bar.setAttribute("role", "alert");
  bar.textContent = `Not updated since ${new Date(heardAt).toLocaleTimeString("en-GB")}: the service does not answer, or fails.`;
  document.querySelector("main")?.prepend(bar);
  document.body.classList.add("stale");
}

function onIdle() {
  refreshing = false;
  if (wanted && Number(wanted) > Number(shown)) refresh();
}

/** @param {() => void} after */
export function startLive(after) {
  if (!("live" in document.body.dataset)) return; // the answer to a form, which another load would not bring back
  if (document.querySelector("main form[method=post].wide")) return; // a form that is being filled in stays as it is
  shown = document.body.dataset.revision ?? "";
  afterRefresh = after;
  const events = new EventSource(`${document.body.dataset.root}/live?shows=${document.body.dataset.live}`);
  events.addEventListener("message", (message) => {
    wanted = message.data;
    if (document.hidden || Number(wanted) <= Number(shown)) hear();
    else refresh(); // which hears of the change once the page shows it
  });
  events.addEventListener("error", () => {
    if (events.readyState === EventSource.CLOSED) setInterval(refresh, POLL_MS);
    else miss();
  });
  setInterval(() => { if (Date.now() - heardAt > SILENCE_MS) { miss(); miss(); } }, POLL_MS);
  document.addEventListener("visibilitychange", () => {
    if (Number(wanted) > Number(shown)) refresh();
  });
}
