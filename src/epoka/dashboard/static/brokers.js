// Every broker that the cluster should have, those that are down included.
import { badge, h, lasting, number, redraw, toast } from "/static/dom.js";
import { now, on, post, store } from "/static/store.js";
import { whyBroker } from "/static/panel.js";

export function brokers(host) {
  const draw = () => redraw(host, page(store.state));
  draw();
  const tick = () => {
    for (const each of host.querySelectorAll("[data-since]")) each.textContent = since(Number(each.dataset.since));
    for (const each of host.querySelectorAll("[data-heard]")) each.textContent = heard(each.dataset.heard);
  };
  const stops = [on("state", draw), on("heard", tick)];
  const timer = setInterval(tick, 1000);
  return () => (stops.forEach((stop) => stop()), clearInterval(timer));
}

const since = (ms) => (ms ? lasting(now() - ms) : "–");
const heard = (id) => (store.heard[id] ? `${lasting(now() - store.heard[id])} ago` : "–");

function page({ brokers }) {
  const heads = ["Broker", "State", "Generation", "Incarnation", "For", "Heartbeat", "Leads", "Hosts", "Listens"];
  const faults = store.session.faults;
  return [
    h(
      "header", { class: "title" }, h("h1", {}, "Brokers"),
      faults && h("button", { "data-key": "heal", onclick: () => act("heal", null) }, "Heal all isolations"),
    ),
    h(
      "div",
      { class: "scroll" },
      h(
        "table",
        { class: "cards" },
        h("thead", {}, h("tr", {}, heads.map((each) => h("th", {}, each)), faults && h("th", {}, "Do"))),
        h("tbody", {}, Object.values(brokers).map((each) => row(each, faults))),
      ),
    ),
    h("p", { class: "quiet" }, "A row opens why the broker is as it is."),
  ];
}

function row(broker, faults) {
  const cell = (title, props, ...children) => h("td", { "data-title": title, ...props }, ...children);
  return h(
    "tr",
    {
      tabindex: 0, "data-row": "", "data-key": `broker-${broker.id}`, class: broker.state,
      onclick: (event) => event.target.closest("button, summary, details") || whyBroker(broker.id),
    },
    cell("Broker", {}, h("strong", {}, String(broker.id))),
    cell("State", {}, badge(broker.state), h("div", { class: "below" }, why(broker))),
    cell("Generation", { class: "mono" }, broker.generation ?? "–"),
    cell("Incarnation", { class: "mono faint", title: broker.incarnation }, broker.incarnation?.slice(0, 8) ?? "–"),
    cell("For", { class: "short", "data-since": broker.since_ms || 0 }, since(broker.since_ms)),
    cell("Heartbeat", { class: "short", "data-heard": broker.id }, heard(broker.id)),
    cell("Leads", { class: "num" }, number(broker.leads)),
    cell("Hosts", { class: "num" }, number(broker.hosts)),
    cell("Listens", { class: "mono faint" }, broker.endpoints.map((each) => h("div", {}, each)), broker.endpoints.length ? "" : "–"),
    faults && cell("Do", {}, verbs(broker)),
  );
}

/** The reason without what the row says already. */
const why = (broker) => broker.because.replace(/^broker \d+ (is (fenced|down|paused)\b[:,]? ?)?/, "");

function verbs(broker) {
  const key = `verbs-${broker.id}`;
  const button = (text, verb, about = {}) =>
    h("button", { "data-key": `${key}-${text}`, "data-verb": text, onclick: () => act(verb, broker.id, about) }, text);
  const gone = broker.state === "down";
  return h(
    "details",
    { class: "verbs", "data-key": key },
    h("summary", { "data-key": `${key}-summary` }, "Faults"),
    h(
      "div",
      {},
      gone
        ? [button("start", "start"), button("wipe", "wipe")]
        : broker.state === "paused"
          ? [button("resume", "resume"), button("kill", "kill")]
          : [
              button("clean bounce", "bounce", { how: "clean" }),
              button("unclean bounce", "bounce", { how: "unclean" }),
              button("fast bounce", "bounce", { how: "fast" }),
              button("wiped bounce", "bounce", { how: "wiped" }),
              button("stop", "stop"),
              button("kill", "kill"),
              button("pause", "pause"),
              button("isolate from controller", "isolate", { from_: "controller" }),
              button("isolate from brokers", "isolate", { from_: "brokers" }),
            ],
    ),
  );
}

async function act(verb, node, about = {}) {
  const whom = (node === null ? "" : ` broker ${node}`) + (about.from_ ? ` from ${about.from_}` : "");
  const done = toast(`${about.how ?? ""} ${verb}${whom}…`.trim(), "busy");
  try {
    const outcome = await post("/api/faults", { verb, node, ...about });
    const lives = outcome.old !== undefined && outcome.old !== outcome.new;
    toast(`${verb}${whom}: done${lives ? `, generation ${outcome.old ?? "unknown"} → ${outcome.new ?? "unknown"}` : ""}`, "good");
  } catch (error) {
    toast(`${verb}${whom}: ${error.message}`, "bad");
  } finally {
    done();
  }
}
