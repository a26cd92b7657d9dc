// @ts-check
// Changes a part of the page into its newer version, touching only what differs.

const KEPT = "form[data-keep], [data-load], [data-kept], input, select, textarea";
const OWN = new Set(["open", "hidden", "tabindex"]); // attributes that the reader or a script has set

/** What identifies an element among its siblings. @param {Node} node */
function nameOf(node) {
  if (!(node instanceof Element)) return "";
  if (node.id) return `#${node.id}`;
  if (node.tagName !== "TR" && node.tagName !== "LI") return "";
  return node.querySelector(":scope > td.number:first-child")?.textContent ?? node.querySelector("a[href]")?.getAttribute("href") ?? "";
}

/** The key of each child: several may link to the same page. @param {Element} parent @returns {Map<Node, string>} */
function keysOf(parent) {
  const [keys, seen] = [new Map(), new Map()];
  for (const child of parent.childNodes) {
    const name = nameOf(child);
    const count = seen.get(name) ?? 0;
    seen.set(name, count + 1);
    keys.set(child, name && `${name} ${count}`);
  }
  return keys;
}

/** @param {Element} old @param {Element} now */
function morphAttributes(old, now) {
  for (const { name } of Array.from(old.attributes)) {
    if (!now.hasAttribute(name) && !OWN.has(name)) old.removeAttribute(name);
  }
  for (const { name, value } of now.attributes) {
    if (old.getAttribute(name) !== value && !OWN.has(name)) old.setAttribute(name, value);
  }
}

/** @param {Element} old @param {Element} now */
function morphChildren(old, now) {
  const [oldKeys, keys] = [keysOf(old), keysOf(now)];
  /** @type {Map<string, Node>} */
  const byKey = new Map();
  for (const [child, key] of oldKeys) if (key) byKey.set(key, child);
  let place = old.firstChild;
  for (const child of now.childNodes) {
    const key = keys.get(child) ?? "";
    const match = key ? byKey.get(key) : place && !oldKeys.get(place) && place.nodeName === child.nodeName ? place : null;
    if (!match) {
      const added = document.importNode(child, true);
      if (added instanceof Element) added.classList.add("changed");
      old.insertBefore(added, place);
      continue;
    }
    byKey.delete(key);
    if (match !== place) old.insertBefore(match, place);
    else place = match.nextSibling;
    morph(match, child);
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

/** @param {Node} old @param {Node} now */
export function morph(old, now) {
  if (old.isEqualNode(now)) return;
  if (!(old instanceof Element) || !(now instanceof Element)) {
    old.nodeValue = now.nodeValue;
  } else if (!old.matches(KEPT)) {
    morphAttributes(old, now);
    morphChildren(old, now);
  }
}
