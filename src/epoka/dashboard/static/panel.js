// The panel at the side: details of whatever was clicked, and the chain of causes.
import { h, time } from "/static/dom.js";
import { get } from "/static/store.js";

const panel = document.getElementById("panel");
let before = null;

export function openPanel(title, children) {
  if (panel.hidden) before = document.activeElement;
  const close = h("button", { class: "close", onclick: closePanel, "aria-label": "Close" }, "×");
  panel.replaceChildren(h("header", {}, h("h2", {}, title), close), ...children.flat(Infinity).filter(Boolean));
  panel.hidden = false;
  close.focus({ preventScroll: true });
}

export function closePanel() {
  if (panel.hidden) return;
  panel.hidden = true;
  if (before?.isConnected) before.focus({ preventScroll: true });
}

/** A chain of causes: each step is the reason of the one above it that is less deep. */
export function chain(steps) {
  return h(
    "ol",
    { class: "chain" },
    steps.map((step) =>
      h(
        "li",
        { class: `depth-${Math.min(step.depth, 6)} ${step.kind} ${step.verdict ?? ""}` },
        h("span", { class: "when" }, time(step.time_ms), step.node >= 0 ? ` · node ${step.node}` : " · outside"),
        h("span", { class: "what" }, step.depth ? h("em", {}, "because ") : null, step.text),
      ),
    ),
  );
}

export async function whyEvent(row) {
  openPanel(row.rule || row.kind, [h("p", { class: "quiet" }, "Looking for the causes…")]);
  try {
    const { event, rule, steps } = await get("/api/why/event", { node: row.node ?? -1, id: row.event_id });
    openPanel(event.rule || event.kind, [
      facts(event),
      rule && h("p", { class: "rule-told" }, `The rule ${event.rule} refuses when ${rule.refuses_when}. It is asked by the ${rule.asked_by}.`),
      h("h3", {}, "Why"),
      chain(steps),
      h("p", {}, h("a", { class: "button", href: `#/past/${event.time_ms}` }, "The cluster at that moment")),
    ]);
  } catch (error) {
    openPanel(row.rule || row.kind, [h("p", { class: "bad" }, error.message)]);
  }
}

export async function whyBroker(id) {
  openPanel(`Broker ${id}`, [h("p", { class: "quiet" }, "Looking for the causes…")]);
  try {
    const { state, steps } = await get(`/api/why/broker/${id}`);
    openPanel(`Broker ${id}`, [h("p", {}, state), h("h3", {}, "Why"), chain(steps)]);
  } catch (error) {
    openPanel(`Broker ${id}`, [h("p", { class: "bad" }, error.message)]);
  }
}

const FACTS = [
  ["verdict", "Verdict"], ["error", "Error"], ["given", "Given"], ["expected", "Expected"], ["broker", "Broker"],
  ["broker_epoch", "Generation"], ["topic", "Topic"], ["partition", "Partition"], ["detail", "Reason"],
];

function facts(event) {
  const known = FACTS.filter(([key]) => event[key] !== undefined && event[key] !== "" && event[key] !== -1);
  return h(
    "dl",
    { class: "facts" },
    [["When", time(event.time_ms)], ["Told by", event.node >= 0 ? `node ${event.node}` : "outside"]]
      .concat(known.map(([key, title]) => [title, String(event[key])]))
      .flatMap(([title, value]) => [h("dt", {}, title), h("dd", {}, value)]),
  );
}
