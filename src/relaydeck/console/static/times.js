// @ts-check
// Relative times stay true while a page is open.

const EVERY_MS = 5000;
/** @type {[number, string, number][]} */
const STEPS = [[60, "s", 1], [3600, "min", 60], [86400, "h", 3600], [Infinity, "d", 86400]];

/** @param {number} seconds */
function distance(seconds) {
  const size = Math.abs(seconds);
  if (size < 1.5) return "now";
  const [, unit, length] = STEPS.find(([below]) => size < below) ?? STEPS[3];
  const text = `${Math.floor(size / length)} ${unit}`;
  return seconds > 0 ? `in ${text}` : `${text} ago`;
}

function update() {
  for (const each of document.querySelectorAll("time[datetime]")) {
    if (!(each instanceof HTMLTimeElement)) continue;
    const text = distance((Date.parse(each.dateTime) - Date.now()) / 1000);
    if (each.textContent !== text) each.textContent = text;
  }
}

export function startTimes() {
  setInterval(update, EVERY_MS);
}
