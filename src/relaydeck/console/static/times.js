// @ts-check
// Relative times stay true while a page is open, and times are local if the operator wants them so.

const EVERY_MS = 5000;
/** @type {[string, number, string, number][]} each with the next one, if it is shown too */
const UNITS = [["d", 86400, "h", 3600], ["h", 3600, "min", 60], ["min", 60, "", 60], ["s", 1, "", 1]];

/** @param {number} size in seconds */
function span(size) {
  const [unit, length, minor, part] = UNITS.find(([, least]) => size >= least) ?? UNITS[3];
  const rest = minor ? Math.floor((size % length) / part) : 0;
  return `${Math.floor(size / length).toLocaleString("en")} ${unit}${rest ? ` ${rest} ${minor}` : ""}`;
}

/** @param {number} seconds */
function distance(seconds) {
  if (Math.abs(seconds) < 1.5) return "now";
  const text = span(Math.abs(seconds));
  return seconds > 0 ? `in ${text}` : `${text} ago`;
}

/** @type {Intl.DateTimeFormatOptions} */
const CLOCK = { hour: "2-digit", minute: "2-digit" };
/** @type {Intl.DateTimeFormatOptions} */
const DAY = { day: "numeric", month: "short" };

/** Times in charts, which the server writes in UTC. */
function showLocalCharts() {
  for (const each of document.querySelectorAll(".chart [data-at]")) {
    const [moment, text] = [new Date(Number(each.getAttribute("data-at")) * 1000), each.textContent ?? ""];
    each.textContent = moment.toLocaleString("en-GB", { ...(/[A-Z]/.test(text) && DAY), ...(text.includes(":") && CLOCK) });
    each.removeAttribute("data-at");
  }
}

/** What is typed is local time, too: its form is sent with the offset from UTC. @param {Event} event */
function onInput(event) {
  const field = event.target;
  if (!(field instanceof HTMLInputElement) || field.type !== "datetime-local") return;
  const offset = field.form?.elements.namedItem("offset");
  const minutes = -new Date(field.value).getTimezoneOffset();
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60].map((part) => String(part).padStart(2, "0"));
  if (offset instanceof HTMLInputElement) offset.value = `${minutes < 0 ? "-" : "+"}${hours}:${rest}`;
}

function update() {
  const times = document.body.dataset.times;
  if (times === "local") {
    showLocalCharts();
    for (const each of document.querySelectorAll(".chart .zone, [data-zone]")) each.textContent = "local time";
  }
  for (const each of document.querySelectorAll("time[datetime]")) {
    if (!(each instanceof HTMLTimeElement)) continue;
    let seconds = (Date.parse(each.dateTime) - Date.now()) / 1000;
    if (each.classList.contains("left")) {
      const left = seconds > 0 ? span(seconds) : "reached";
      if (each.textContent !== left) each.textContent = left;
      continue;
    }
    const every = Number(each.parentElement?.dataset.every); // of what is repeated, the next time
    if (every) seconds -= Math.min(0, Math.floor(seconds / every)) * every;
    const text = distance(seconds);
    const local = () => new Date(each.dateTime).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "long" });
    const isAgo = times === "ago" && !each.classList.contains("exact"); // one in a sentence is exact
    const shown = isAgo ? text : times === "local" ? local() : each.textContent;
    if (each.textContent !== shown) each.textContent = shown;
    if (!isAgo) each.title = text;
  }
}

export function startTimes() {
  if (document.body.dataset.times === "local") document.addEventListener("input", onInput);
  update();
  setInterval(update, EVERY_MS);
}
