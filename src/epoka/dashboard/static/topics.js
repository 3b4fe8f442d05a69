// Topics, their partitions, and the history of a partition's ISR. Paged by the server.
import { debounced, h, number, redraw, time } from "/static/dom.js";
import { get, on } from "/static/store.js";
import { chain } from "/static/panel.js";
import { pager } from "/static/pager.js";

const SIZE = 50;
const ONLY = [["all", "all"], ["out-of-sync", "out of sync"], ["offline", "offline"]];
const to = (...parts) => `#/topics/${parts.map(encodeURIComponent).join("/")}`;

/** #/topics, #/topics//FILTER, #/topics/NAME, #/topics/NAME/NUMBER */
export function topics(host, [name, more]) {
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
    h("header", { class: "title" }, topic ? crumbs(topic) : h("h1", {}, "Topics")),
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

const cell = (title, props, ...children) => h("td", { "data-title": title, ...props }, ...children);

function grid(heads, body) {
  return h(
    "div",
    { class: "scroll" },
    h("table", { class: "cards" }, h("thead", {}, h("tr", {}, heads.map((each) => h("th", {}, each)))), h("tbody", {}, body)),
  );
}

function link(target, key, tone, ...cells) {
  const go = () => (location.hash = target);
  return h("tr", { tabindex: 0, "data-row": "", "data-key": key, class: tone, onclick: go }, ...cells);
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
  const body = h("div");
  async function load() {
    try {
      redraw(body, history(await get(`/api/partitions/${encodeURIComponent(topic)}/${index}`)));
    } catch (error) {
      redraw(body, h("p", { class: "bad" }, error.message));
    }
  }
  host.append(h("header", { class: "title" }, crumbs(topic, index)), body);
  load();
  const later = debounced(load, 300);
  const stops = [on("anew", later), on("ledger", (news) => news.topics.includes(topic) && later())];
  return () => stops.forEach((stop) => stop());
}

function history({ now, history }) {
  return [
    now
      ? h(
          "section",
          { class: "tiles" },
          fact("Leader", now.leader >= 0 ? `broker ${now.leader}` : "none", now.leader < 0 && "bad"),
          fact("Replicas", replicas(now)),
          fact("In sync", now.isr.join(", ") || "nobody", now.out.length && "uneasy"),
          fact("Epochs", `${now.leader_epoch} / ${now.partition_epoch}`, "", "leader / partition"),
        )
      : h("p", { class: "quiet" }, "The partition does not exist any more."),
    h("h2", {}, "History of the ISR"),
    history.length
      ? h("ol", { class: "history" }, history.map(change))
      : h("p", { class: "empty" }, "The ledger tells of no change."),
  ];
}

function fact(title, value, tone, below = "") {
  return h("div", { class: `tile ${tone || ""}` }, h("span", { class: "title" }, title), h("span", { class: "value" }, value), h("span", { class: "below" }, below));
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
