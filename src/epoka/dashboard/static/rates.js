// Records a second over the last minutes, with what somebody did to the cluster on the same axis.
import { h, number, redraw, s, time } from "/static/dom.js";
import { now, on, store, timeline } from "/static/store.js";
import { faultBar, seen, ticks } from "/static/axis.js";
import { hideTip, tips } from "/static/tip.js";

const SPAN_MS = 300_000;
const GAP_MS = 8000;
const HEIGHT = 92;
const TOP = 8;
const BOTTOM = 18;

export function rates(host) {
  const charts = [
    ["produced", "Produced", "records a second, without the cluster's own topics"],
    ["consumed", "Consumed", "records a second, as groups commit them"],
  ].map(([key, title, below]) => {
    const value = h("span", { class: "value" });
    const chart = h("div", { class: "spark", "data-rate": key });
    tips(chart);
    host.append(h("div", { class: "tile" }, h("span", { class: "title" }, title), value, h("span", { class: "below" }, below), chart));
    return { key, title, value, chart };
  });

  function draw() {
    const points = store.rates;
    for (const { key, title, value, chart } of charts) {
      const last = points.at(-1);
      const fresh = last && now() - last.at_ms < GAP_MS;
      value.textContent = fresh ? number(last[key]) : "–";
      redraw(chart, spark(points, key, title, Math.max(160, chart.clientWidth)));
    }
  }

  const load = () => timeline().then(draw, () => {});
  draw();
  if (store.connected) load();
  const stops = [on("rates", draw), on("timeline", draw), on("anew", () => (draw(), load()))];
  return () => (stops.forEach((stop) => stop()), hideTip());
}

function spark(points, key, title, width) {
  const until = now();
  const from = until - SPAN_MS;
  const x = (ms) => ((Math.min(Math.max(ms, from), until) - from) / SPAN_MS) * width;
  const shown = points.filter((each) => each.at_ms >= from);
  const most = Math.max(1, ...shown.map((each) => each[key]));
  const floor = HEIGHT - BOTTOM;
  const y = (value) => floor - (value / most) * (floor - TOP);
  const drawing = s("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": `${title}, records a second over five minutes, at most ${number(most)}` });
  drawing.append(
    ...ticks(from, until, width).map(([ms, text]) => s("g", { class: "tick" }, s("line", { x1: x(ms), x2: x(ms), y1: TOP, y2: floor }), s("text", { x: x(ms), y: HEIGHT - 4 }, text))),
    ...(store.timeline?.faults ?? []).filter((each) => seen(each.from_ms, each.to_ms, from, until)).map((each) => faultBar(each, x, TOP, floor - TOP, until)),
    ...runs(shown).map((run) => s("path", { class: `rate ${key}`, d: `M${run.map((each) => `${x(each.at_ms).toFixed(1)},${y(each[key]).toFixed(1)}`).join("L")}` })),
    ...shown.map((each) => s("rect", { x: x(each.at_ms) - 3, y: TOP, width: 6, height: floor - TOP, class: "hit", "data-tip": `${number(each[key])} a second\n${time(each.at_ms)}` })),
  );
  return drawing;
}

/** Parts without a gap; a look that failed leaves one. */
function runs(points) {
  const found = [];
  for (const point of points) {
    const run = found.at(-1);
    if (run && point.at_ms - run.at(-1).at_ms < GAP_MS) run.push(point);
    else found.push([point]);
  }
  return found.map((run) => (run.length > 1 ? run : [run[0], { ...run[0], at_ms: run[0].at_ms + 500 }]));
}
