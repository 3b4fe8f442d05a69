// Is all well, and if not, why. What was refused last is one click from its reason.
import { badge, debounced, h, number, redraw, time } from "/static/dom.js";
import { get, on, store } from "/static/store.js";
import { whyBroker, whyEvent } from "/static/panel.js";
import { tile } from "/static/table.js";

const LATEST = 5;

export function overview(host) {
  const [top, charts, below, refusals] = [h("div"), h("section", { class: "tiles charts", "aria-label": "Rates" }), h("div"), h("div")];
  host.append(top, charts, below, h("h2", {}, "Refused last"), refusals);
  const draw = () => (redraw(top, health(store.state)), redraw(below, strip(store.state)));
  let open = true;
  const load = () => get("/api/decisions", { size: LATEST }).then((found) => open && redraw(refusals, latest(found.rows)), () => {});
  draw();
  // While the page is being made there is more urgent work for both sides.
  if (store.connected) load();
  const later = debounced(load, 300);
  const stops = [on("state", draw), on("anew", later), on("ledger", (news) => news.refusals.length && later())];
  // Is all well: that first. The charts come behind it.
  import("/static/rates.js").then(({ rates }) => open && stops.push(rates(charts)), () => {});
  return () => ((open = false), stops.forEach((stop) => stop()));
}

function health({ health, cluster, counts }) {
  return [
    h(
      "section",
      { class: `hero ${health.tone}`, "aria-label": "Health" },
      h("div", { class: "lamp", "aria-hidden": "true" }),
      h(
        "div",
        {},
        h("h1", {}, health.headline),
        health.reasons.length
          ? h("ul", { class: "reasons" }, health.reasons.slice(0, 8).map((each) => h("li", {}, each)))
          : h("p", { class: "quiet" }, "Every broker is active and every replica is in sync."),
      ),
    ),
    h(
      "section",
      { class: "tiles", "aria-label": "Figures" },
      tile("Controller", cluster.controller ?? "–", cluster.mode ? `${cluster.mode} mode` : ""),
      tile("Level", cluster.level ?? "–", cluster.id ? `cluster ${cluster.id}` : ""),
      tile("Topics", number(counts.topics), `${number(counts.partitions)} partitions`, { href: "#/topics" }),
      tile("Out of sync", number(counts.out_of_sync), "partitions", { href: "#/topics//out-of-sync", tone: counts.out_of_sync && "uneasy" }),
      tile("Offline", number(counts.offline), "partitions", { href: "#/topics//offline", tone: counts.offline && "bad" }),
      tile("Refusals", number(counts.refusals), "in the ledger", { href: "#/decisions" }),
    ),
  ];
}

function strip({ brokers }) {
  return [h("h2", {}, "Brokers"), h("section", { class: "brokers-strip" }, Object.values(brokers).map(card))];
}

function card(broker) {
  return h(
    "button",
    {
      class: `card ${broker.state}`, "data-row": "", "data-key": `card-${broker.id}`,
      title: "Why?", onclick: () => whyBroker(broker.id),
    },
    h("span", { class: "name" }, `Broker ${broker.id}`, badge(broker.state)),
    h("span", { class: "generation" }, broker.generation === null ? "no generation" : `generation ${broker.generation}`),
    h("span", { class: "below" }, broker.because || `leads ${number(broker.leads)} of ${number(broker.hosts)}`),
  );
}

function latest(rows) {
  if (!rows.length) return h("p", { class: "empty" }, "Nothing was refused.");
  return h(
    "ol",
    { class: "told" },
    rows.map((row) =>
      h(
        "li",
        { tabindex: 0, "data-row": "", "data-key": `refusal-${row.node}-${row.event_id}`, class: row.verdict, onclick: () => whyEvent(row) },
        h("span", { class: "when" }, time(row.time_ms)),
        h("span", { class: "what" }, row.text),
      ),
    ),
  );
}
