// The cluster as it was: a moment is chosen, and the server rebuilds from the ledger what was true then.
import { badge, day, debounced, h, lasting, number, redraw, time } from "/static/dom.js";
import { get, now, on, store, timeline } from "/static/store.js";
import { cell, grid, tile } from "/static/table.js";
import { first, picture } from "/static/generations.js";
import { pager } from "/static/pager.js";
import { whyEvent } from "/static/panel.js";
import { hideTip, tips } from "/static/tip.js";

const SIZE = 20;
const STEPS = 2000;

/** #/past, #/past/MILLISECONDS */
export function past(host, [given]) {
  const view = { at_ms: /^\d+$/.test(given ?? "") ? Number(given) : null, before_ms: null, after_ms: null };
  const partitions = { only: "out-of-sync", q: "", page: 0, size: SIZE };
  const decisions = { page: 0, size: SIZE };
  const events = { page: 0, size: SIZE };
  const slider = h("input", { type: "range", class: "scrubber", "aria-label": "Moment", "data-key": "moment", oninput: (event) => choose(Number(event.target.value)) });
  const said = h("p", { class: "moment", role: "status" });
  const live = h("button", { class: "live", "data-key": "live", onclick: () => choose(null) }, "Live");
  const back = h("button", { "data-key": "step-back", title: "Key [", onclick: () => step("before_ms") }, "‹ what came before");
  const on_ = h("button", { "data-key": "step-on", title: "Key ]", onclick: () => step("after_ms") }, "what came next ›");
  const parts = Object.fromEntries(["chart", "brokers", "partitions", "decisions", "events"].map((name) => [name, h("div", { class: `past-${name}` })]));
  parts.chart.classList.add("chart");
  let asked = 0;

  async function load() {
    const mine = ++asked;
    const at = view.at_ms === null ? {} : { at_ms: view.at_ms };
    // One answer that fails is said in its place and hides no other.
    const put = async (part, path, query, draw) => {
      try {
        const found = await get(path, query);
        if (mine !== asked) return;
        redraw(parts[part], draw(found));
        parts[part].dataset.at = at.at_ms ?? "live";
      } catch (error) {
        if (mine === asked) redraw(parts[part], h("p", { class: "bad" }, error.message));
      }
    };
    const paged = (filter, draw) => (found) => [draw(found), pager(found, (page) => ((filter.page = page), load()))];
    await Promise.all([
      put("brokers", "/api/past", at, (found) => (take(found), summary(found))),
      put("partitions", "/api/past/partitions", { ...at, ...partitions }, paged(partitions, placements)),
      put("decisions", "/api/decisions", { ...(view.at_ms === null ? {} : { until_ms: view.at_ms }), ...decisions }, paged(decisions, (found) => list(found, "Nothing had been refused."))),
      put("events", "/api/events", { ...at, ...events }, paged(events, (found) => list(found, "The ledger says nothing of that time."))),
    ]);
  }

  function take(found) {
    Object.assign(view, { before_ms: found.before_ms, after_ms: found.after_ms, first_ms: found.first_ms });
    draw();
  }

  function draw() {
    const until = now();
    const begin = view.first_ms ?? (store.timeline ? first(store.timeline) : until - 60_000);
    const at = view.at_ms ?? until;
    Object.assign(slider, { min: begin, max: until, step: Math.max(1, Math.round((until - begin) / STEPS)) });
    slider.value = at;
    said.textContent = view.at_ms === null ? "This is now." : `This was ${day(at)} ${time(at)}, ${lasting(until - at)} ago.`;
    said.classList.toggle("then", view.at_ms !== null);
    live.setAttribute("aria-pressed", String(view.at_ms === null));
    back.disabled = view.before_ms === null;
    on_.disabled = view.at_ms === null || view.after_ms === null;
    if (!store.timeline) return;
    const length = Math.max(1000, until - begin);
    redraw(parts.chart, picture(store.timeline, begin, begin + length, Math.max(320, parts.chart.clientWidth), { cursor_ms: at, pick: choose }));
  }

  function choose(at_ms) {
    view.at_ms = at_ms === null || at_ms >= now() ? null : Math.round(at_ms);
    for (const each of [partitions, decisions, events]) each.page = 0;
    history.replaceState(null, "", view.at_ms === null ? "#/past" : `#/past/${view.at_ms}`);
    draw();
    soon();
  }

  function step(where) {
    if (view[where] !== null && view[where] !== undefined) choose(view[where]);
  }

  const soon = debounced(load, 120);
  const select = h(
    "select",
    { "aria-label": "Only", onchange: (event) => ((partitions.only = event.target.value), (partitions.page = 0), load()) },
    [["out-of-sync", "out of sync"], ["offline", "without a leader"], ["all", "all"]].map(([value, text]) => h("option", { value }, text)),
  );
  const search = h("input", { type: "search", placeholder: "Search topics", "aria-label": "Search topics", oninput: (event) => ((partitions.q = event.target.value), (partitions.page = 0), soon()) });
  host.append(
    h("header", { class: "title" }, h("h1", {}, "Past"), h("div", { class: "ranges" }, back, on_, live)),
    h("section", { class: "figure" }, parts.chart, slider, said),
    parts.brokers,
    h("h2", {}, "Partitions"),
    h("div", { class: "filters" }, search, select),
    parts.partitions,
    h("h2", {}, "Decisions until then"),
    parts.decisions,
    h("h2", {}, "What the ledger says until then"),
    parts.events,
  );
  tips(parts.chart);
  load();
  timeline().then(draw, () => {});
  const keys = (event) => {
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "") && document.activeElement !== slider) return;
    if (event.key === "[") step("before_ms");
    if (event.key === "]") step("after_ms");
  };
  document.addEventListener("keydown", keys);
  const later = debounced(() => view.at_ms === null && load(), 500);
  const stops = [on("timeline", draw), on("ledger", later), on("anew", () => (timeline().then(draw, () => {}), later()))];
  const timer = setInterval(draw, 1000);
  const size = new ResizeObserver(debounced(draw, 100));
  size.observe(parts.chart);
  return () => {
    stops.forEach((stop) => stop());
    document.removeEventListener("keydown", keys);
    clearInterval(timer);
    size.disconnect();
    hideTip();
    asked = -1;
  };
}

function summary({ brokers, controller, faults, counts, forgotten }) {
  return [
    h(
      "section",
      { class: "tiles" },
      controller
        ? tile("Controller", String(controller.node), controller.down ? "down" : `${store.state?.cluster.mode === "zookeeper" ? "epoch" : "start"} ${controller.number}`, { tone: controller.down && "bad" })
        : tile("Controller", "none", "none had told yet"),
      tile("Partitions", number(counts.partitions)),
      tile("Out of sync", number(counts.out_of_sync), "partitions", { tone: counts.out_of_sync && "uneasy" }),
      tile("Offline", number(counts.offline), "partitions", { tone: counts.offline && "bad" }),
      tile("Refusals", number(counts.refusals), forgotten ? "that are remembered" : "until then"),
    ),
    faults.length ? h("ul", { class: "reasons" }, faults.map((each) => h("li", {}, `somebody ${each.text}`))) : null,
    h("h2", {}, "Brokers"),
    brokers.length
      ? h("section", { class: "brokers-strip" }, brokers.map(card))
      : h("p", { class: "empty" }, "The ledger knows of no broker at that time."),
  ];
}

function card(broker) {
  return h(
    "div",
    { class: `card ${broker.state}`, "data-broker": broker.id, title: broker.incarnation },
    h("span", { class: "name" }, `Broker ${broker.id}`, badge(broker.state)),
    h("span", { class: "generation" }, `generation ${broker.generation}`),
    h("span", { class: "below" }, broker.because),
  );
}

function placements(found) {
  if (!found.rows.length) return h("p", { class: "empty" }, "No partition fits.");
  return grid(
    ["Partition", "Leader", "ISR", "Epochs", "Since", "Because"],
    found.rows.map((row) =>
      h(
        "tr",
        { tabindex: 0, "data-row": "", "data-key": `then-${row.topic}-${row.partition}`, class: row.out.length ? "trouble" : "", onclick: () => (location.hash = `#/topics/${encodeURIComponent(row.topic)}/${row.partition}`) },
        cell("Partition", { class: "name" }, `${row.topic}-${row.partition}`),
        cell("Leader", {}, row.leader >= 0 ? `broker ${row.leader}` : h("span", { class: "out" }, "none")),
        cell("ISR", {}, h("span", { class: "replicas" }, row.isr.map((each) => h("span", { class: `replica in ${each === row.leader ? "leads" : ""}` }, String(each))), row.out.map((each) => h("span", { class: "replica out" }, String(each))))),
        cell("Epochs", { class: "num" }, `${row.leader_epoch} / ${row.partition_epoch}`),
        cell("Since", { class: "mono faint short" }, time(row.since_ms)),
        cell("Because", { class: "faint" }, row.because),
      ),
    ),
  );
}

function list(found, otherwise) {
  if (!found.rows.length) return h("p", { class: "empty" }, otherwise);
  return h(
    "ol",
    { class: "told" },
    found.rows.map((row) =>
      h(
        "li",
        { tabindex: 0, "data-row": "", "data-key": `told-${row.node}-${row.event_id}-${row.kind}`, class: `${row.kind} ${row.verdict ?? ""}`, onclick: () => whyEvent(row) },
        h("span", { class: "when" }, time(row.time_ms), row.node >= 0 ? ` · node ${row.node}` : " · outside"),
        h("span", { class: "what" }, row.text),
      ),
    ),
  );
}
