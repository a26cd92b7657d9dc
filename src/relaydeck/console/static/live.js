// @ts-check
// What changes on the server changes on the page, without losing scroll, focus or a form that is being filled in.

import { morph } from "./morph.js";

const LEAST_MS = 1000; // between two refreshes
const POLL_MS = 15000; // without a stream

let shown = "";
let refreshing = false;
let wanted = "";
/** @type {() => void} */
let afterRefresh = () => {};

async function refresh() {
  if (refreshing || document.hidden) return;
  refreshing = true;
  try {
    const response = await fetch(location.href, { headers: { "x-console-refresh": "1" } });
    if (response.status === 401) return location.assign(`${document.body.dataset.root}/sign-in`);
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const [old, now] = [document.querySelector("main"), page.querySelector("main")];
    if (response.ok && old && now) {
      morph(old, now);
      shown = page.body.dataset.revision ?? shown;
      afterRefresh();
    }
  } catch {
    // The service is away: the next message or poll tries again.
  } finally {
    setTimeout(onIdle, LEAST_MS);
  }
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
  const events = new EventSource(`${document.body.dataset.root}/live`);
  events.addEventListener("message", (message) => {
    wanted = message.data;
    if (Number(wanted) > Number(shown)) refresh();
  });
  events.addEventListener("error", () => {
    if (events.readyState === EventSource.CLOSED) setInterval(refresh, POLL_MS);
  });
  document.addEventListener("visibilitychange", () => {
    if (Number(wanted) > Number(shown)) refresh();
  });
}
