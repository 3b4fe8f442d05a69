// Messages of a topic. Whatever they hold becomes text: the server says what is text and what is bytes.
import { day, h, number, redraw, time } from "/static/dom.js";
import { get } from "/static/store.js";
import { laidOut } from "/static/layout.js";
import { cell, grid } from "/static/table.js";
import { openPanel } from "/static/panel.js";

const STARTS = [["newest", "newest first"], ["oldest", "oldest first"], ["offset", "from an offset"], ["time", "from a time"]];
const FORMS = [["auto", "text or hex"], ["text", "text"], ["hex", "hex"], ["base64", "base64"]];
const MOST_BACK = 500;

export function messages(host, topic, partition = "") {
  const filter = { topic, partition, start: "newest", at: "", as: "auto", size: 50, cursor: "" };
  const before = [];
  const table = h("div");
  let asked = 0;

  async function load() {
    const mine = ++asked;
    try {
      const found = await get("/api/messages", filter);
      if (mine === asked) redraw(table, rows(found, filter.as), pages(found));
    } catch (error) {
      if (mine === asked) redraw(table, h("p", { class: "bad" }, error.message));
    }
  }

  function anew() {
    before.length = 0;
    filter.cursor = "";
    load();
  }

  function pages(found) {
    const back = filter.start === "newest";
    const go = (text, key, possible, move) => h("button", { "data-key": `messages-${key}`, disabled: !possible, onclick: () => (move(), load()) }, text);
    const on = () => {
      before.push(filter.cursor);
      if (before.length > MOST_BACK) before.shift();
      filter.cursor = found.cursor;
    };
    return h(
      "div",
      { class: "pager" },
      h("span", {}, `${number(found.records)} offsets in ${found.partitions_shown === found.partitions ? number(found.partitions) : `${number(found.partitions_shown)} of ${number(found.partitions)}`} ${found.partitions === 1 ? "partition" : "partitions"}`),
      go("‹ before", "before", before.length, () => (filter.cursor = before.pop())),
      go(back ? "older ›" : "newer ›", "on", found.cursor, on),
    );
  }

  const choice = (label, known, name) =>
    h("select", { "aria-label": label, onchange: (event) => ((filter[name] = event.target.value), show(), anew()) }, known.map(([value, text]) => h("option", { value }, text)));
  const offset = h("input", { type: "number", min: 0, step: 1, placeholder: "offset", "aria-label": "Offset", onchange: (event) => ((filter.at = event.target.value), anew()) });
  const moment = h("input", { type: "datetime-local", step: 1, "aria-label": "Time", onchange: (event) => ((filter.at = event.target.value ? new Date(event.target.value).getTime() : ""), anew()) });
  const which = h("input", { type: "number", min: 0, step: 1, placeholder: "every partition", "aria-label": "Partition", value: partition, onchange: (event) => ((filter.partition = event.target.value), anew()) });
  function show() {
    offset.hidden = filter.start !== "offset";
    moment.hidden = filter.start !== "time";
    if (filter.start === "offset") filter.at = offset.value ||= "0";
    if (filter.start === "time") filter.at = moment.value ? new Date(moment.value).getTime() : 0;
  }
  show();
  const target = `#/topics/${encodeURIComponent(topic)}`;
  host.append(
    h("header", { class: "title" }, h("h1", { class: "crumbs" }, h("a", { href: "#/topics" }, "Topics"), " / ", h("a", { href: target }, topic), " / messages")),
    h("div", { class: "filters" }, choice("From", STARTS, "start"), offset, moment, which, choice("Shown as", FORMS, "as"), h("button", { "data-key": "read-again", onclick: anew }, "Read again")),
    table,
  );
  load();
  return () => (asked = -1);
}

function rows(found, form) {
  if (!found.rows.length) return h("p", { class: "empty" }, found.cursor ? "These offsets hold no messages." : "There are no messages here.");
  return grid(
    ["Time", "Offset", "Key", "Value", "Headers"],
    found.rows.map((row) =>
      h(
        "tr",
        { tabindex: 0, "data-row": "", "data-key": `message-${row.partition}-${row.offset}`, onclick: () => whole(found.topic, row, form) },
        cell("Time", { class: "mono faint short" }, day(row.time_ms), " ", time(row.time_ms)),
        cell("Offset", { class: "mono short" }, `${row.partition} : ${row.offset}`),
        cell("Key", { class: "content" }, content(row.key)),
        cell("Value", { class: "content" }, content(row.value)),
        cell("Headers", { class: "content" }, row.headers.map((each) => h("div", {}, h("b", {}, each.name), " ", content(each.value))), row.headers_left_out > 0 && h("div", { class: "faint" }, `and ${row.headers_left_out} more`)),
      ),
    ),
  );
}

function content(part) {
  if (part === null) return h("span", { class: "faint" }, "null");
  return [
    h("span", { class: `bytes ${part.as}` }, part.text),
    (part.cut || part.as !== "text") && h("span", { class: "faint size" }, ` ${part.cut ? "… " : ""}${number(part.size)} bytes${part.as === "text" ? "" : `, ${part.as}`}`),
  ];
}

async function whole(topic, row, form) {
  const title = `${topic}-${row.partition}, offset ${row.offset}`;
  openPanel(title, [h("p", { class: "quiet" }, "Reading…")]);
  try {
    const found = await get("/api/message", { topic, partition: row.partition, offset: row.offset, as: form });
    openPanel(title, [
      h("dl", { class: "facts" }, h("dt", {}, found.appended ? "Appended" : "Created"), h("dd", {}, `${day(found.time_ms)} ${time(found.time_ms)}`), h("dt", {}, "Key"), h("dd", {}, content(found.key))),
      h("h3", {}, "Value"),
      h("pre", { class: "message" }, pretty(found.value)),
      found.headers.length ? h("h3", {}, "Headers") : null,
      found.headers.length ? h("dl", { class: "facts" }, found.headers.flatMap((each) => [h("dt", {}, each.name), h("dd", {}, content(each.value))])) : null,
      found.headers_left_out ? h("p", { class: "quiet" }, `and ${found.headers_left_out} more`) : null,
    ]);
  } catch (error) {
    openPanel(title, [h("p", { class: "bad" }, error.message)]);
  }
}

/** JSON is laid out; anything else stays as it came. */
function pretty(value) {
  const json = value?.as === "text" && !value.cut && /^\s*[[{]/.test(value.text);
  return (json && laidOut(value.text)) || content(value);
}
