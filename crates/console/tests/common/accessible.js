// What keeps people from using this page: text without contrast (WCAG 2.2, 1.4.3), fields, buttons,
// links and pictures without a name (4.1.2, 1.1.1), ids that occur twice, headings that skip a level,
// a page without language, title or main part. Returns a list of sentences; empty is good.
const still = new CSSStyleSheet();
still.replaceSync("*,*::before,*::after{transition:none!important;animation:none!important}");
document.adoptedStyleSheets = [...document.adoptedStyleSheets, still];

const faults = new Set();
const name = (e) =>
  e.tagName.toLowerCase() + (e.id ? "#" + e.id : "") + (e.className.baseVal ?? e.className ? "." + String(e.className.baseVal ?? e.className).trim().replace(/\s+/g, ".") : "");
const rgba = (text) => {
  const n = (text.match(/[\d.]+/g) ?? ["0", "0", "0", "0"]).map(Number);
  const scale = text.startsWith("color(") ? 255 : 1;
  return [n[0] * scale, n[1] * scale, n[2] * scale, n[3] ?? 1];
};
const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3]));
const light = (c) => {
  const [r, g, b] = c.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = (e) => {
  const layers = [];
  for (let at = e; at; at = at.parentElement) layers.push(rgba(getComputedStyle(at).backgroundColor));
  const page = matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
  return layers.reverse().reduce((under, top) => over(top, under), page);
};
const shown = (e) => e.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true }) && e.getClientRects().length > 0;

const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  const e = texts.currentNode.parentElement;
  if (!texts.currentNode.data.trim() || !shown(e) || e.closest("script,style,option,[disabled]")) continue;
  const style = getComputedStyle(e);
  const under = ground(e);
  const ink = over(rgba(e.closest("svg") ? style.fill : style.color), under);
  const [a, b] = [light(ink), light(under)].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05);
  const size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
  if (ratio < (large ? 3 : 4.5)) faults.add(`contrast ${ratio.toFixed(2)} of ${name(e)} "${texts.currentNode.data.trim().slice(0, 30)}"`);
}

const named = (e) =>
  (e.getAttribute("aria-label") ?? "").trim() ||
  (e.getAttribute("aria-labelledby") ?? "").split(/\s+/).map((id) => document.getElementById(id)?.innerText ?? "").join("").trim() ||
  [...(e.labels ?? [])].map((l) => l.innerText).join("").trim() ||
  (e.matches("a,button,summary") && (e.innerText.trim() || e.querySelector("svg title,img[alt]"))) ||
  (e.title ?? "").trim();
for (const e of document.querySelectorAll("a[href],button,summary,select,textarea,iframe,input:not([type=hidden])")) {
  if (shown(e) && !named(e)) faults.add(`${name(e)} ${e.name ?? ""} has no name`);
}
for (const e of document.querySelectorAll("img:not([alt]),svg:not([aria-hidden]):not([role=img])")) faults.add(`${name(e)} has no text`);
for (const e of document.querySelectorAll("svg[role=img]")) if (!named(e) && !e.querySelector("title")) faults.add(`${name(e)} has no text`);

const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
for (const id of ids.filter((id, i) => ids.indexOf(id) !== i)) faults.add(`id ${id} occurs twice`);
let level = 0;
for (const e of [...document.querySelectorAll("h1,h2,h3,h4")].filter(shown)) {
  const now = Number(e.tagName[1]);
  if (now > level + 1) faults.add(`heading ${now} after ${level}: ${e.innerText.slice(0, 30)}`);
  level = now;
}
if (document.querySelectorAll("h1").length !== 1) faults.add("not exactly one h1");
if (!document.documentElement.lang) faults.add("no language");
if (!document.title.trim()) faults.add("no title");
if (!document.querySelector("main")) faults.add("no main part");
return [...faults];
