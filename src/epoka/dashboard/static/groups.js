// Consumer groups: who is in them, and how far they are behind. Asked of the coordinators, again and again.
import { badge, debounced, h, number, redraw } from "/static/dom.js";
import { get } from "/static/store.js";
import { cell, grid, link, tile } from "/static/table.js";
import { pager } from "/static/pager.js";

const SIZE = 50;
const AGAIN_MS = 3000;
const to = (group) => `#/groups/${encodeURIComponent(group)}`;

/** #/groups, #/groups/NAME */
export function groups(host, [name]) {
  return name ? one(host, name) : list(host);
}

/** Ask now, and again while somebody looks; returns how to ask at once and how to stop. */
function asking(path, filter, table, draw) {
  let asked = 0;
  let waiting = 0;
  async function load() {
    const mine = ++asked;
    waiting += 1;
    try {
      const found = await get(path, filter);
      if (mine === asked) redraw(table, draw(found), pager(found, (page) => ((filter.page = page), load())));
    } catch (error) {
      if (mine === asked) redraw(table, h("p", { class: "bad" }, error.message));
    } finally {
      waiting -= 1;
    }
  }
  load();
  // Brokers that are slow to answer are not asked again meanwhile.
  const timer = setInterval(() => document.hidden || waiting || load(), AGAIN_MS);
  return [load, () => (clearInterval(timer), (asked = -1))];
}

function list(host) {
  const filter = { q: "", page: 0, size: SIZE };
  const table = h("div");
  const search = h("input", { type: "search", placeholder: "Search", "aria-label": "Search", oninput: (event) => ((filter.q = event.target.value), (filter.page = 0), soon()) });
  host.append(h("header", { class: "title" }, h("h1", {}, "Consumer groups")), h("div", { class: "filters" }, search), table);
  const [load, stop] = asking("/api/groups", filter, table, rows);
  const soon = debounced(load, 200);
  return stop;
}

function rows(found) {
  if (!found.rows.length) return h("p", { class: "empty" }, "No group fits.");
  return grid(
    ["Group", "State", "Members", "Partitions", "Lag", "Coordinator"],
    found.rows.map((row) =>
      link(
        to(row.group), `group-${row.group}`, "",
        cell("Group", { class: "name" }, row.group, row.problem && h("div", { class: "below bad" }, row.problem)),
        cell("State", {}, badge(row.state || "unknown")),
        cell("Members", { class: "num" }, row.members ?? "–"),
        cell("Partitions", { class: "num" }, row.partitions ?? "–"),
        cell("Lag", { class: "num" }, lag(row.lag)),
        cell("Coordinator", {}, `broker ${row.coordinator}`),
      ),
    ),
  );
}

/** Below zero: the log was cut behind what was committed. */
function lag(value) {
  if (value === null) return "–";
  return h("span", { class: value > 0 ? "behind" : value < 0 ? "out" : "faint", title: value < 0 && "committed beyond the end of the log" }, number(value));
}

function one(host, name) {
  const table = h("div");
  host.append(h("header", { class: "title" }, h("h1", { class: "crumbs" }, h("a", { href: "#/groups" }, "Consumer groups"), " / ", name)), table);
  const [, stop] = asking("/api/group", { name, page: 0, size: SIZE }, table, details);
  return stop;
}

function details(group) {
  return [
    h(
      "section",
      { class: "tiles" },
      tile("State", badge(group.state)),
      tile("Lag", lag(group.lag), "records not yet committed"),
      tile("Coordinator", `broker ${group.coordinator}`, group.protocol && `assignor ${group.protocol}`),
      tile("Members", number(group.members_total)),
    ),
    h("h2", {}, "Members"),
    group.members.length
      ? grid(
          ["Client", "Member", "Host", "Partitions"],
          group.members.map((member) =>
            h(
              "tr",
              { tabindex: 0, "data-row": "", "data-key": `member-${member.member_id}` },
              cell("Client", { class: "name" }, member.client_id || "–", member.instance_id && h("div", { class: "below" }, member.instance_id)),
              cell("Member", { class: "mono faint wide" }, member.member_id),
              cell("Host", { class: "mono faint" }, member.host),
              cell("Partitions", { class: "num" }, number(member.partitions)),
            ),
          ),
        )
      : h("p", { class: "empty" }, "Nobody is in the group now."),
    h("h2", {}, "Partitions"),
    group.rows.length
      ? grid(
          ["Partition", "Committed", "End", "Lag", "Client"],
          group.rows.map((row) =>
            link(
              `#/topics/${encodeURIComponent(row.topic)}/${row.partition}`, `lag-${row.topic}-${row.partition}`, row.lag < 0 ? "trouble" : "",
              cell("Partition", { class: "name" }, `${row.topic}-${row.partition}`),
              cell("Committed", { class: "num" }, row.committed === null ? "–" : number(row.committed)),
              cell("End", { class: "num" }, row.end === null ? "–" : number(row.end)),
              cell("Lag", { class: "num" }, lag(row.lag)),
              cell("Client", { class: "faint" }, row.client ?? "nobody"),
            ),
          ),
        )
      : h("p", { class: "empty" }, "The group has committed nothing and has no partitions."),
  ];
}
