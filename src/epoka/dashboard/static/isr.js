// Who was in sync when: a lane a replica, with what somebody did to it drawn as bars.
import { s, time } from "/static/dom.js";
import { now } from "/static/store.js";
import { faultBar, seen, ticks } from "/static/axis.js";

const LEFT = 92;
const RIGHT = 18;
const ROW = 30;
const BAR = 14;

/** `history` is newest first; `now` says who the replicas are, where the partition still exists. */
export function isrChart({ now: standing, history }, faults, width) {
  const until = now();
  const changes = [...history].reverse();
  const from = Math.min(changes[0].time_ms, until - 1000) - (until - changes[0].time_ms) * 0.02;
  const brokers = [...new Set([...(standing?.replicas ?? []), ...changes.flatMap((each) => [...(each.isr_before ?? []), ...(each.isr ?? [])])])].sort((one, other) => one - other);
  const height = ROW * brokers.length + 24;
  const x = (ms) => LEFT + ((Math.min(Math.max(ms, from), until) - from) / (until - from)) * (width - LEFT - RIGHT);
  const drawing = s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "Who was in sync over time" });
  drawing.append(...ticks(from, until, width - LEFT).map(([ms, text]) => s("g", { class: "tick" }, s("line", { x1: x(ms), x2: x(ms), y1: 0, y2: height - 22 }), s("text", { x: x(ms), y: height - 7 }, text))));
  brokers.forEach((broker, at) => {
    const y = ROW * at + (ROW - BAR) / 2;
    drawing.append(s("text", { x: 0, y: ROW * at + ROW / 2 + 4, class: "lane" }, `Broker ${broker}`));
    drawing.append(...faults.filter((each) => (each.node === broker || each.node === -1) && seen(each.from_ms, each.to_ms, from, until)).map((each) => faultBar(each, x, ROW * at + 2, ROW - 4, until)));
    changes.forEach((change, index) => {
      const to_ms = changes[index + 1]?.time_ms ?? until;
      const inside = (change.isr ?? []).includes(broker);
      const words = `broker ${broker} ${inside ? (change.leader === broker ? "leads" : "in sync") : "out of sync"}\nfrom ${time(change.time_ms)}, leader epoch ${change.leader_epoch}`;
      drawing.append(s("rect", { x: x(change.time_ms), y, width: Math.max(1, x(to_ms) - x(change.time_ms)), height: BAR, class: `sync ${inside ? (change.leader === broker ? "leads" : "in") : "out"}`, "data-tip": words }));
    });
  });
  return drawing;
}
