// Topics, their partitions, and the history of a partition's ISR. Paged by the server.
import { debounced, h, number, redraw, time } from "/static/dom.js";
import { get, on, store, timeline } from "/static/store.js";
import { cell, grid, link, tile } from "/static/table.js";
import { chain } from "/static/panel.js";
import { isrChart } from "/static/isr.js";
import { messages } from "/static/messages.js";
import { pager } from "/static/pager.js";
import { hideTip, tips } from "/static/tip.js";

const SIZE = 50;
const ONLY = [["all", "all"], ["out-of-sync", "out of sync"], ["offline", "offline"]];
const to = (...parts) => `#/topics/${parts.map(encodeURIComponent).join("/")}`;

const AGAIN_MS = 2000;

/** #/topics, #/topics//FILTER, #/topics/NAME, #/topics/NAME/NUMBER, #/topics/NAME/messages[/NUMBER] */
export function topics(host, [name, more, which]) {
  if (name && more === "messages") return messages(host, name, which);
  if (name && more !== undefined) return partition(host, name, Number(more));
  return name ? list(host, name) : list(host, null, more);
}

function list(host, topic, only = "all") {
  const filter = { q: "", only, topic: topic ?? "", page: 0, size: SIZE };
  const table = h("div");
  let shown = new Set();
  let asked = 0;

  async function load() {
    const mine = ++asked;
    try {
      const found = await get(topic ? "/api/partitions" : "/api/topics", filter);
      if (mine !== asked) return;
      shown = new Set(found.rows.map((row) => row.name ?? row.topic));
      redraw(table, topic ? partitions(found) : rows(found), pager(found, (page) => ((filter.page = page), load())));
    } catch (error) {
      redraw(table, h("p", { class: "bad" }, error.message));
    }
  }

  const soon = debounced(load, 200);
  host.append(
    h("header", { class: "title" }, topic ? crumbs(topic) : h("h1", {}, "Topics"), topic && h("a", { class: "button", href: to(topic, "messages"), "data-key": "messages" }, "Messages")),
    h(
      "div",
      { class: "filters" },
      topic
        ? null
        : h("input", {
            type: "search", placeholder: "Search", "aria-label": "Search",
            oninput: (event) => ((filter.q = event.target.value), (filter.page = 0), soon()),
          }),
      h(
        "select",
        { "aria-label": "Only", onchange: (event) => ((filter.only = event.target.value), (filter.page = 0), load()) },
        ONLY.map(([value, text]) => h("option", { value, selected: value === only }, text)),
      ),
    ),
    table,
  );
  load();
  const later = debounced(load, 400);
  // Changes of topics that are not on this page change nothing here but the counts.
  const stops = [
    on("metadata", later),
    on("anew", later),
    on("ledger", (news) => news.topics.some((each) => shown.has(each)) && later()),
  ];
  return () => stops.forEach((stop) => stop());
}

function crumbs(topic, index) {
  const parts = [h("a", { href: "#/topics" }, "Topics"), " / "];
  parts.push(index === undefined ? topic : h("a", { href: to(topic) }, topic));
  if (index !== undefined) parts.push(` / ${index}`);
  return h("h1", { class: "crumbs" }, parts);
}

function rows(found) {
  if (!found.rows.length) return h("p", { class: "empty" }, "No topic fits.");
  const count = (value, tone) => h("span", { class: value ? tone : "faint" }, number(value));
  return grid(
    ["Topic", "Partitions", "Replicas", "Out of sync", "Offline"],
    found.rows.map((row) =>
      link(
        to(row.name), `topic-${row.name}`, "",
        cell("Topic", { class: "name" }, row.name),
        cell("Partitions", { class: "num" }, number(row.partitions)),
        cell("Replicas", { class: "num" }, row.replicas),
        cell("Out of sync", { class: "num" }, count(row.out_of_sync, "out")),
        cell("Offline", { class: "num" }, count(row.offline, "out")),
      ),
    ),
  );
}

function replicas(row) {
  return h(
    "span",
    { class: "replicas" },
    row.replicas.map((each) => {
      const out = row.out.includes(each);
      const what = `${each === row.leader ? "leader, " : ""}${out ? "out of sync" : "in sync"}`;
      return h("span", { class: `replica ${out ? "out" : "in"} ${each === row.leader ? "leads" : ""}`, title: `broker ${each}: ${what}` }, String(each));
    }),
  );
}

function partitions(found) {
  if (!found.rows.length) return h("p", { class: "empty" }, "No partition fits.");
  return grid(
    ["Partition", "Leader", "Replicas", "ISR", "Leader epoch", "Partition epoch"],
    found.rows.map((row) =>
      link(
        to(row.topic, row.partition), `partition-${row.partition}`, row.out.length ? "trouble" : "",
        cell("Partition", { class: "num" }, row.partition),
        cell("Leader", {}, row.leader >= 0 ? `broker ${row.leader}` : h("span", { class: "out" }, "none")),
        cell("Replicas", {}, replicas(row)),
        cell("ISR", { class: `mono ${row.out.length ? "out" : ""}` }, row.isr.join(", ") || "empty"),
        cell("Leader epoch", { class: "num" }, row.leader_epoch),
        cell("Partition epoch", { class: "num" }, row.partition_epoch),
      ),
    ),
  );
}

function partition(host, topic, index) {
  const [body, offsets, chart, changes] = [h("div"), h("div"), h("div", { class: "chart isr" }), h("div")];
  const path = `/api/partitions/${encodeURIComponent(topic)}/${index}`;
  let known = null;
  let open = true;
  let waiting = false;

  async function load() {
    try {
      known = await get(path);
      redraw(body, standing(known));
      redraw(changes, history(known));
    } catch (error) {
      known = null;
      redraw(body, h("p", { class: "bad" }, error.message));
    }
    draw();
    look();
  }
  async function look() {
    if (!known?.now) return redraw(offsets);
    if (waiting) return;
    waiting = true;
    try {
      const found = await get(`${path}/replicas`);
      if (open) redraw(offsets, replicaTable(found));
    } catch (error) {
      if (open) redraw(offsets, h("p", { class: "bad" }, error.message));
    } finally {
      waiting = false;
    }
  }
  function draw() {
    redraw(chart, known?.history.length ? isrChart(known, store.timeline?.faults ?? [], Math.max(320, chart.clientWidth)) : h("p", { class: "empty" }, "Nothing to draw."));
  }

  host.append(
    h("header", { class: "title" }, crumbs(topic, index), h("a", { class: "button", href: to(topic, "messages", index), "data-key": "messages" }, "Messages")),
    body,
    h("h2", {}, "Offsets"),
    offsets,
    h("h2", {}, "In sync over time"),
    h("section", { class: "figure" }, chart),
    h("h2", {}, "History of the ISR"),
    changes,
  );
  tips(chart);
  load();
  const faults = () => timeline().then(() => open && draw(), () => {});
  faults();
  const later = debounced(() => open && load(), 300);
  const stops = [on("anew", () => (later(), faults())), on("timeline", draw), on("ledger", (news) => news.topics.includes(topic) && later())];
  const timer = setInterval(() => document.hidden || look(), AGAIN_MS);
  return () => {
    open = false;
    stops.forEach((stop) => stop());
    clearInterval(timer);
    hideTip();
  };
}

/** How far each replica has come, as it says itself. */
function replicaTable(found) {
  const figure = (value) => (value === null ? "–" : number(value));
  return grid(
    ["Replica", "Role", "End offset", "Behind", "High watermark"],
    found.map((row) =>
      h(
        "tr",
        { tabindex: 0, "data-row": "", "data-key": `replica-${row.broker}`, class: row.in_sync ? "in-sync" : "out-of-sync trouble" },
        cell("Replica", { class: row.in_sync ? "" : "out" }, `broker ${row.broker}`),
        cell("Role", {}, row.leads ? "leader" : "follower", ", ", row.in_sync ? "in sync" : h("span", { class: "out" }, "out of sync"), row.problem && h("div", { class: "below" }, row.problem)),
        cell("End offset", { class: "num" }, figure(row.end_offset)),
        cell("Behind", { class: "num" }, h("span", { class: row.behind ? (row.in_sync ? "behind" : "out") : "faint" }, figure(row.behind))),
        cell("High watermark", { class: "num" }, figure(row.high_watermark)),
      ),
    ),
  );
}

function standing({ now }) {
  return [
    now
      ? h(
          "section",
          { class: "tiles" },
          tile("Leader", now.leader >= 0 ? `broker ${now.leader}` : "none", "", { tone: now.leader < 0 && "bad" }),
          tile("Replicas", replicas(now)),
          tile("In sync", now.isr.join(", ") || "nobody", "", { tone: now.out.length && "uneasy" }),
          tile("Epochs", `${now.leader_epoch} / ${now.partition_epoch}`, "leader / partition"),
        )
      : h("p", { class: "quiet" }, "The partition does not exist any more."),
  ];
}

function history({ history: changes }) {
  return changes.length ? h("ol", { class: "history" }, changes.map(change)) : h("p", { class: "empty" }, "The ledger tells of no change.");
}

function change(event, at) {
  const before = event.isr_before ?? [];
  const after = event.isr ?? [];
  const left = before.filter((each) => !after.includes(each));
  const joined = before.length ? after.filter((each) => !before.includes(each)) : [];
  return h(
    "li",
    { class: left.length ? "shrank" : joined.length ? "grew" : "" },
    h("span", { class: "when" }, time(event.time_ms)),
    h(
      "div",
      {},
      h(
        "div",
        { class: "replicas" },
        after.map((each) => h("span", { class: `replica in ${each === event.leader ? "leads" : ""} ${joined.includes(each) ? "new" : ""}` }, String(each))),
        left.map((each) => h("span", { class: "replica out", title: `broker ${each} left` }, String(each))),
        h("span", { class: "what" }, event.detail || event.kind, event.rule ? h("code", {}, event.rule) : null),
      ),
      event.causes.length === 1 ? h("div", { class: "cause" }, "because ", event.causes[0].text) : null,
      event.causes.length > 1
        ? h("details", { open: at === 0, "data-key": `causes-${event.node}-${event.event_id}` }, h("summary", { "data-key": `why-${event.event_id}` }, "because ", event.causes[0].text), chain(event.causes.slice(1)))
        : null,
    ),
  );
}
