// Elements and words. Texts only ever become text nodes, so nothing that a cluster says can become markup.
const SVG = "http://www.w3.org/2000/svg";

export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function s(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  return element;
}

// What is pressed stays until it is let go: to a browser, a press on one element and a release on the one that
// took its place are no click at all.
const PRESSABLE = "a, button, summary, [data-row]";
const waiting = new Map();
let pressed = null;

addEventListener("pointerdown", (event) => (pressed = event.target.closest?.(PRESSABLE) ?? null), true);
// The click comes after the release and before a timer.
for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => setTimeout(released), true);
addEventListener("blur", released);

function released() {
  pressed = null;
  for (const [host, children] of waiting) put(host, children);
  waiting.clear();
}

/** Put new content in place, once nothing in it is pressed, and leave the focus where it was. */
export function redraw(host, ...children) {
  if (pressed && host.contains(pressed)) waiting.set(host, children);
  else put(host, children);
}

function put(host, children) {
  const key = host.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  const open = new Map([...host.querySelectorAll("details[data-key]")].map((each) => [each.dataset.key, each.open]));
  host.replaceChildren(...children.flat(Infinity).filter(Boolean));
  for (const each of host.querySelectorAll("details[data-key]")) each.open = open.get(each.dataset.key) ?? each.open;
  if (key) host.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

const NUMBERS = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
export const number = (value) => NUMBERS.format(value);

const pad = (value, digits = 2) => String(value).padStart(digits, "0");

// Written by hand: a browser takes longer for a time in words of its own than for a whole chart.
export function minutes(ms) {
  const at = new Date(ms);
  return `${pad(at.getHours())}:${pad(at.getMinutes())}`;
}

export function seconds(ms) {
  return `${minutes(ms)}:${pad(new Date(ms).getSeconds())}`;
}

export function time(ms) {
  return `${seconds(ms)}.${pad(new Date(ms).getMilliseconds(), 3)}`;
}

export function day(ms) {
  const at = new Date(ms);
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
}

export function lasting(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.floor((ms % 60_000) / 1000)} s`;
  if (ms < 86_400_000) return `${Math.floor(ms / 3_600_000)} h ${Math.floor((ms % 3_600_000) / 60_000)} min`;
  return `${Math.floor(ms / 86_400_000)} d ${Math.floor((ms % 86_400_000) / 3_600_000)} h`;
}

export function badge(state) {
  return h("span", { class: `badge ${state.replaceAll(" ", "-")}` }, state);
}

export function debounced(what, ms) {
  let timer = null;
  return () => {
    timer ??= setTimeout(() => {
      timer = null;
      what();
    }, ms);
  };
}

/** Say something at the bottom of the page for a while; returns how to take it back. */
export function toast(text, tone = "") {
  const host = document.getElementById("toasts");
  const shown = h("div", { class: `toast ${tone}` }, text);
  host.append(shown);
  while (host.children.length > 4) host.firstChild.remove();
  // What is under way is said until it is over.
  if (tone !== "busy") setTimeout(() => shown.remove(), 8000);
  return () => shown.remove();
}
