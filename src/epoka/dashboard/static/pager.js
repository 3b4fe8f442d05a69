// Which part of a long list is shown.
import { h, number } from "/static/dom.js";

export function pager({ total, page, size }, go) {
  if (!total) return null;
  const last = Math.max(0, Math.ceil(total / size) - 1);
  const button = (text, label, to) =>
    h("button", { "aria-label": label, disabled: to < 0 || to > last || to === page, "data-key": `page-${label}`, onclick: () => go(to) }, text);
  return h(
    "div",
    { class: "pager" },
    h("span", {}, `${number(page * size + 1)} – ${number(Math.min(total, (page + 1) * size))} of ${number(total)}`),
    button("«", "First page", 0),
    button("‹", "Page before", page - 1),
    button("›", "Next page", page + 1),
    button("»", "Last page", last),
  );
}
