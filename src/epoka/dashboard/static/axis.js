// What every chart has: a time axis, and what somebody did drawn as bars over it.
import { day, lasting, minutes, s, seconds, time } from "/static/dom.js";

const STEPS = [100, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000, 10_800_000, 21_600_000, 86_400_000];
const DAY_MS = 86_400_000;

/** Moments worth a line, with their names; about one for every 110 pixels. */
export function ticks(from, until, width) {
  const wanted = (until - from) / Math.max(2, width / 110);
  // A clock that was wrong once must not cost a line for every day since 1970.
  const step = STEPS.find((each) => each >= wanted) ?? Math.ceil(wanted / DAY_MS) * DAY_MS;
  const marks = [];
  for (let at = Math.ceil(from / step) * step; at <= until; at += step) {
    const text = step >= DAY_MS ? day(at) : step >= 60_000 ? minutes(at) : step >= 1000 ? seconds(at) : time(at).slice(0, -2);
    marks.push([at, text]);
  }
  return marks;
}

export const seen = (begin, end, from, until) => begin <= until && (end ?? until) >= from;

/** One fault as a bar: thin for a moment, wide for what lasted. `x` places a time, `end` is now. */
export function faultBar(fault, x, y, height, end) {
  const lasts = fault.to_ms !== fault.from_ms;
  const words = `${fault.verb}: somebody ${fault.text}\n${time(fault.from_ms)}${lasts ? `, for ${lasting((fault.to_ms ?? end) - fault.from_ms)}` : ""}`;
  const wide = lasts ? Math.max(3, x(fault.to_ms ?? end) - x(fault.from_ms)) : 3;
  return s("rect", { x: x(fault.from_ms) - (lasts ? 0 : 1.5), y, width: wide, height, rx: 1.5, class: `fault ${lasts ? "lasts" : "moment"} ${fault.verb}`, "data-tip": words });
}
