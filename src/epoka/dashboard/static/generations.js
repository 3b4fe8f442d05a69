// A time line a broker of every life, the controllers on the same axis, and what somebody did to them.
import { badge, debounced, h, lasting, redraw, s, time } from "/static/dom.js";
import { faultBar, seen as overlaps, ticks } from "/static/axis.js";
import { cell, grid } from "/static/table.js";
import { hideTip, tips } from "/static/tip.js";
import { now, on, store, timeline } from "/static/store.js";
import { whyBroker } from "/static/panel.js";

const LEFT = 92;
const RIGHT = 18;
const TOP = 30;
const ROW = 46;
const BAR = 22;
const RANGES = [["all", 0], ["1 h", 3_600_000], ["15 min", 900_000], ["5 min", 300_000], ["1 min", 60_000]];
const ENDS = { clean: "○", unclean: "✕", "fast bounce": "»", wiped: "∅" };
const ENDED = { clean: "clean end", unclean: "unclean end", "fast bounce": "fast bounce", wiped: "wiped" };

export function generations(host) {
  const view = { range_ms: 0, until_ms: null };
  const chart = h("div", { class: "chart", tabindex: 0, "data-key": "chart", "aria-label": "Time line; plus and minus zoom, arrows move" });
  const lives = h("div");
  const ranges = h("div", { class: "ranges", role: "group", "aria-label": "Range" });
  host.append(
    h("header", { class: "title" }, h("h1", {}, "Generations"), ranges),
    h("section", { class: "figure" }, chart, legend()),
    h("h2", {}, "Lives"),
    lives,
  );

  const span = () => {
    const until = view.until_ms ?? now();
    const begin = first(store.timeline);
    const all = Math.max(1000, now() - begin);
    const length = view.range_ms || all * 1.02;
    return [until - length, until];
  };

  function draw() {
    if (!store.timeline) return;
    const [from, until] = span();
    redraw(chart, picture(store.timeline, from, until, Math.max(320, chart.clientWidth)));
    redraw(
      ranges,
      RANGES.map(([text, ms]) =>
        h(
          "button",
          { "data-key": `range-${text}`, "aria-pressed": String(view.range_ms === ms && view.until_ms === null), onclick: () => ((view.range_ms = ms), (view.until_ms = null), draw()) },
          text,
        ),
      ),
    );
  }

  const list = () => store.timeline && redraw(lives, table(store.timeline));
  const load = () => timeline().then(() => (draw(), list()), (error) => redraw(chart, h("p", { class: "bad" }, error.message)));

  function zoom(by, at = 1) {
    const [from, until] = span();
    const fixed = from + (until - from) * at;
    view.range_ms = Math.min(7 * 86_400_000, Math.max(200, (until - from) * by));
    const moved = fixed + view.range_ms * (1 - at);
    view.until_ms = moved >= now() ? null : moved;
    draw();
  }

  function move(by) {
    const [from, until] = span();
    view.range_ms = until - from;
    const moved = until + (until - from) * by;
    view.until_ms = moved >= now() ? null : moved;
    draw();
  }

  chart.addEventListener("keydown", (event) => {
    const done = { "+": () => zoom(0.7), "=": () => zoom(0.7), "-": () => zoom(1.4), ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2) }[event.key];
    if (done) (event.preventDefault(), done());
  });
  chart.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const box = chart.getBoundingClientRect();
    const at = Math.min(1, Math.max(0, (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT)));
    zoom((event.deltaY || event.deltaX) > 0 ? 1.2 : 0.8, at);
  }, { passive: false });
  let drag = null;
  chart.addEventListener("pointerdown", (event) => (drag = { x: event.clientX, moved: false }));
  chart.addEventListener("pointermove", (event) => {
    if (!drag || !event.buttons || Math.abs(event.clientX - drag.x) < 4) return;
    move((drag.x - event.clientX) / (chart.clientWidth - LEFT - RIGHT));
    drag.x = event.clientX;
  });
  tips(chart);

  load();
  const drawn = debounced(() => (draw(), list()), 150);
  const stops = [on("timeline", drawn), on("anew", load)];
  const timer = setInterval(() => view.until_ms === null && draw(), 1000);
  const size = new ResizeObserver(debounced(draw, 100));
  size.observe(chart);
  return () => {
    stops.forEach((stop) => stop());
    clearInterval(timer);
    size.disconnect();
    hideTip();
  };
}

const mode = () => store.state?.cluster.mode;

export function first({ lanes, reigns, faults }) {
  const begins = [
    ...Object.values(lanes).flatMap((lane) => lane.lives.slice(0, 1).map((life) => life.from_ms)),
    ...reigns.slice(0, 1).map((each) => each.from_ms),
    ...faults.slice(0, 1).map((each) => each.from_ms),
  ];
  return begins.length ? Math.min(...begins) : now() - 60_000;
}

/** The lives between two moments. `cursor_ms` marks one moment, `pick` is told of the moment that is clicked. */
export function picture(line, from, until, width, { cursor_ms = null, pick = null } = {}) {
  const lanes = Object.values(line.lanes);
  const height = TOP + ROW * (lanes.length + 1) + 26;
  const x = (ms) => LEFT + ((Math.min(Math.max(ms, from), until) - from) / (until - from)) * (width - LEFT - RIGHT);
  const seen = (begin, end) => overlaps(begin, end, from, until);
  const row = (at) => TOP + ROW * at;
  const end = Math.min(now(), until);
  const bar = (begin, to, at, props, ...more) =>
    s("rect", { x: x(begin), y: row(at) + (ROW - BAR) / 2, width: Math.max(1.5, x(to ?? end) - x(begin)), height: BAR, ...props }, ...more);
  const label = (text, begin, to, at, kind) => {
    const room = x(to ?? end) - x(begin);
    return room > text.length * 7 + 10 && s("text", { x: x(begin) + 8, y: row(at) + ROW / 2 + 4, class: `label ${kind}` }, text);
  };
  const drawing = s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "Lives of the brokers over time" });
  drawing.append(
    s("defs", {}, s("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("rect", { width: 6, height: 6, class: "hatch-ground" }), s("rect", { width: 2.5, height: 6, class: "hatch-line" }))),
    ...ticks(from, until, width - LEFT).map(([ms, text]) =>
      s("g", { class: "tick" }, s("line", { x1: x(ms), x2: x(ms), y1: TOP, y2: height - 24 }), s("text", { x: x(ms), y: height - 8 }, text)),
    ),
    s("text", { x: 0, y: row(0) + ROW / 2 + 4, class: "lane" }, "Controller"),
    ...line.reigns.filter((each) => seen(each.from_ms, each.to_ms)).flatMap((each) => [
      bar(each.from_ms, each.to_ms, 0, { class: `reign ${each.number % 2 ? "odd" : "even"}`, rx: 5, "data-tip": `controller ${each.node}, ${mode() === "zookeeper" ? `epoch ${each.number}` : `start ${each.number}`}\nsince ${time(each.from_ms)}\n${each.detail}` }),
      label(`${each.node} · ${mode() === "zookeeper" ? "epoch" : "start"} ${each.number}`, each.from_ms, each.to_ms, 0, "on"),
    ]).filter(Boolean),
  );
  const faults = (at, whose) =>
    drawing.append(...line.faults.filter((each) => whose(each.node) && seen(each.from_ms, each.to_ms)).map((each) => faultBar(each, x, row(at) + 3, ROW - 6, end)));
  // Whatever was done to somebody who is no broker was done to a controller.
  faults(0, (node) => node !== -1 && !(node in line.lanes));
  const marks = [];
  lanes.forEach((lane, index) => {
    const at = index + 1;
    drawing.append(s("line", { x1: 0, x2: width, y1: row(at), y2: row(at), class: "rule" }));
    drawing.append(s("text", { x: 0, y: row(at) + ROW / 2 + 4, class: "lane" }, `Broker ${lane.broker}`));
    faults(at, (node) => node === lane.broker || node === -1);
    for (const life of lane.lives) {
      if (!seen(life.from_ms, life.to_ms)) continue;
      const words = (what) =>
        `generation ${life.generation}${what ? `: ${what}` : ""}\nfrom ${time(life.from_ms)}${life.to_ms ? ` to ${time(life.to_ms)}` : ", goes on"}` +
        (life.ended ? `\n${ENDED[life.ended] ?? life.ended}: ${life.because}` : "");
      const group = s("g", { class: "life", "data-generation": life.generation, onclick: pick ? null : () => whyBroker(lane.broker) });
      for (const span of life.spans) {
        if (!seen(span.from_ms, span.to_ms) || (life.to_ms !== null && span.from_ms > life.to_ms)) continue;
        group.append(bar(span.from_ms, span.to_ms ?? life.to_ms, at, { class: `span ${span.kind}`, "data-tip": words(span.kind) }));
      }
      group.append(bar(life.from_ms, life.to_ms, at, { class: "outline", rx: 2, "data-tip": words("") }));
      const text = label(`${life.generation}`, life.from_ms, life.to_ms, at, "on");
      if (text) group.append(text);
      if (life.ended && life.to_ms >= from && life.to_ms <= until) {
        const mark = life.ended.replaceAll(" ", "-");
        // Above whatever begins where this ends.
        marks.push(
          s("g", { class: `end ${mark}`, "data-tip": words("") },
            s("circle", { cx: x(life.to_ms), cy: row(at) + ROW / 2, r: 8 }),
            s("text", { x: x(life.to_ms), y: row(at) + ROW / 2 + 4 }, ENDS[life.ended] ?? "?")),
        );
      }
      drawing.append(group);
    }
  });
  drawing.append(...marks);
  if (until >= now() - 1000) drawing.append(s("line", { x1: x(now()), x2: x(now()), y1: TOP - 8, y2: height - 24, class: "now" }));
  if (cursor_ms !== null) drawing.append(s("line", { x1: x(cursor_ms), x2: x(cursor_ms), y1: TOP - 14, y2: height - 20, class: "cursor" }));
  if (pick) {
    drawing.classList.add("picks");
    drawing.addEventListener("click", (event) => {
      const box = drawing.getBoundingClientRect();
      const at = ((event.clientX - box.left) * (width / box.width) - LEFT) / (width - LEFT - RIGHT);
      if (at >= 0 && at <= 1) pick(from + at * (until - from));
    });
  }
  return drawing;
}

function legend() {
  const item = (kind, text) => h("span", { class: `key ${kind}` }, h("i", {}), text);
  return h(
    "div",
    { class: "legend" },
    item("active", "active"), item("fenced", "fenced"), item("stopping", "stopping"), item("fault", "fault"),
    Object.entries(ENDED).map(([kind, text]) => h("span", { class: `key end ${kind.replaceAll(" ", "-")}` }, h("b", {}, ENDS[kind]), text)),
  );
}

function table({ lanes }) {
  const all = Object.values(lanes).flatMap((lane) => lane.lives.map((life) => ({ ...life, broker: lane.broker })));
  all.sort((one, other) => other.from_ms - one.from_ms);
  if (!all.length) return h("p", { class: "empty" }, "The ledger tells of no life yet.");
  return grid(
    ["Broker", "Generation", "Began", "Lasted", "End", "Reason"],
    all.slice(0, 100).map((life) =>
      h(
        "tr",
        { tabindex: 0, "data-row": "", "data-key": `life-${life.broker}-${life.generation}`, onclick: () => whyBroker(life.broker) },
        cell("Broker", {}, h("strong", {}, String(life.broker))),
        cell("Generation", { class: "mono" }, life.generation),
        cell("Began", { class: "mono faint" }, time(life.from_ms)),
        cell("Lasted", {}, life.to_ms ? lasting(life.to_ms - life.from_ms) : "goes on"),
        cell("End", {}, life.ended ? badge(life.ended) : "–"),
        cell("Reason", { class: "faint" }, life.because || "–"),
      ),
    ),
  );
}
