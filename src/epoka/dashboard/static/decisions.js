// Every refusal: the rule, what was given, what was expected, and on a click what led to it.
import { debounced, h, redraw, time } from "/static/dom.js";
import { get, on, store } from "/static/store.js";
import { whyEvent } from "/static/panel.js";
import { pager } from "/static/pager.js";

const SIZE = 50;

export function decisions(host) {
  const filter = { q: "", rule: "", broker: "", verdict: "refused", page: 0, size: SIZE };
  const table = h("div");
  const rules = h("select", { "aria-label": "Rule", onchange: (event) => set("rule", event.target.value) }, h("option", { value: "" }, "every rule"));
  const broker = h("select", { "aria-label": "Broker", onchange: (event) => set("broker", event.target.value) }, h("option", { value: "" }, "every broker"));
  let asked = 0;

  function set(name, value) {
    Object.assign(filter, { page: 0, [name]: value });
    load();
  }

  async function load() {
    const mine = ++asked;
    try {
      const found = await get("/api/decisions", filter);
      if (mine !== asked) return;
      options(rules, "every rule", found.rules.map((each) => [each, each]));
      options(broker, "every broker", Object.keys(store.state?.brokers ?? {}).map((each) => [each, `broker ${each}`]));
      redraw(table, rows(found), pager(found, (page) => ((filter.page = page), load())));
    } catch (error) {
      redraw(table, h("p", { class: "bad" }, error.message));
    }
  }

  const search = h("input", {
    type: "search", placeholder: "Search", "aria-label": "Search",
    oninput: (event) => ((filter.q = event.target.value), (filter.page = 0), soon()),
  });
  const soon = debounced(load, 200);
  host.append(
    h("header", { class: "title" }, h("h1", {}, "Decisions")),
    h(
      "div",
      { class: "filters" },
      search,
      rules,
      broker,
      h(
        "select",
        { "aria-label": "Verdict", onchange: (event) => set("verdict", event.target.value) },
        h("option", { value: "refused" }, "refused or ignored"),
        h("option", { value: "all" }, "every verdict"),
      ),
    ),
    table,
  );
  load();
  const later = debounced(() => filter.page === 0 && load(), 300);
  const stops = [on("ledger", (news) => (news.refusals.length || filter.verdict === "all") && later()), on("anew", later)];
  return () => stops.forEach((stop) => stop());
}

function options(select, first, known) {
  if (select.options.length === known.length + 1) return;
  const chosen = select.value;
  select.replaceChildren(h("option", { value: "" }, first), ...known.map(([value, text]) => h("option", { value }, text)));
  select.value = chosen;
}

function rows(found) {
  if (!found.rows.length) return h("p", { class: "empty" }, "Nothing was refused.");
  const cell = (title, props, ...children) => h("td", { "data-title": title, ...props }, ...children);
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      { class: "cards" },
      h("thead", {}, h("tr", {}, ["Time", "Rule", "About", "Given", "Expected", "Answer"].map((each) => h("th", {}, each)))),
      h(
        "tbody",
        {},
        found.rows.map((row) =>
          h(
            "tr",
            { tabindex: 0, "data-row": "", "data-key": `${row.node}-${row.event_id}`, class: row.verdict, onclick: () => whyEvent(row) },
            cell("Time", { class: "mono faint" }, time(row.time_ms)),
            cell("Rule", {}, h("code", {}, row.rule), row.detail && h("div", { class: "below" }, row.detail)),
            cell("About", {}, about(row)),
            cell("Given", { class: "mono given" }, row.given || "–"),
            cell("Expected", { class: "mono" }, row.expected || "–"),
            cell("Answer", { class: "mono faint" }, row.error && row.error !== "NONE" ? row.error : row.verdict),
          ),
        ),
      ),
    ),
  );
}

function about(row) {
  const words = [];
  if (row.broker >= 0) words.push(`broker ${row.broker}`);
  if (row.topic) words.push(row.partition >= 0 ? `${row.topic}-${row.partition}` : row.topic);
  return words.join(", ") || (row.node >= 0 ? `node ${row.node}` : "–");
}
