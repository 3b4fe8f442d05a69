// Parts that the pages share: a table that becomes cards on a phone, a row that leads somewhere, a tile.
import { h } from "/static/dom.js";

export const cell = (title, props, ...children) => h("td", { "data-title": title, ...props }, ...children);

export function grid(heads, body) {
  return h(
    "div",
    { class: "scroll" },
    h("table", { class: "cards" }, h("thead", {}, h("tr", {}, heads.map((each) => h("th", {}, each)))), h("tbody", {}, body)),
  );
}

export function link(target, key, tone, ...cells) {
  const go = () => (location.hash = target);
  return h("tr", { tabindex: 0, "data-row": "", "data-key": key, class: tone, onclick: go }, ...cells);
}

export function tile(title, value, below = "", { href, tone } = {}) {
  const words = typeof value === "string" && value.length > 9;
  return h(
    href ? "a" : "div",
    { class: `tile ${tone || ""}`, href, "data-key": href && `tile-${title}` },
    h("span", { class: "title" }, title),
    h("span", { class: words ? "value words" : "value" }, typeof value === "number" ? String(value) : value),
    h("span", { class: "below" }, below || ""),
  );
}
