// @ts-check
// Relative times stay true while a page is open, and the exact ones are local if the operator wants them so.

const EVERY_MS = 5000;
/** @type {[string, number, string, number][]} each with the next one, if it is shown too */
const UNITS = [["d", 86400, "h", 3600], ["h", 3600, "min", 60], ["min", 60, "", 60], ["s", 1, "", 1]];

/** @param {number} seconds */
function distance(seconds) {
  const size = Math.abs(seconds);
  if (size < 1.5) return "now";
  const [unit, length, minor, part] = UNITS.find(([, least]) => size >= least) ?? UNITS[3];
  const rest = minor ? Math.floor((size % length) / part) : 0;
  const text = `${Math.floor(size / length).toLocaleString("en")} ${unit}${rest ? ` ${rest} ${minor}` : ""}`;
  return seconds > 0 ? `in ${text}` : `${text} ago`;
}

function update() {
  const isLocal = document.body.dataset.times === "local";
  for (const each of document.querySelectorAll("time[datetime]")) {
    if (!(each instanceof HTMLTimeElement)) continue;
    const text = distance((Date.parse(each.dateTime) - Date.now()) / 1000);
    if (each.textContent !== text) each.textContent = text;
    if (isLocal) each.title = new Date(each.dateTime).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "long" });
  }
}

export function startTimes() {
  update();
  setInterval(update, EVERY_MS);
}
