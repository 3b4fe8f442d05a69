// Is all well, and if not, why.
import { badge, h, number, redraw } from "/static/dom.js";
import { on, store } from "/static/store.js";
import { whyBroker } from "/static/panel.js";

export function overview(host) {
  const draw = () => store.state && redraw(host, page(store.state));
  draw();
  return on("state", draw);
}

function page({ health, cluster, counts, brokers }) {
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
      tile("Topics", number(counts.topics), `${number(counts.partitions)} partitions`, "#/topics"),
      tile("Out of sync", number(counts.out_of_sync), "partitions", "#/topics//out-of-sync", counts.out_of_sync && "uneasy"),
      tile("Offline", number(counts.offline), "partitions", "#/topics//offline", counts.offline && "bad"),
      tile("Refusals", number(counts.refusals), "in the ledger", "#/decisions"),
    ),
    h("h2", {}, "Brokers"),
    h("section", { class: "brokers-strip" }, Object.values(brokers).map(card)),
  ];
}

function tile(title, value, below, href, tone) {
  return h(
    href ? "a" : "div",
    { class: `tile ${tone || ""}`, href, "data-key": href && `tile-${title}` },
    h("span", { class: "title" }, title),
    h("span", { class: String(value).length > 9 ? "value words" : "value" }, String(value)),
    h("span", { class: "below" }, below),
  );
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
