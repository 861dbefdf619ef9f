// Small multiples: a figure of each complete day, beside what is usual.
import { el, svg } from "./dom.js";
import { show } from "./format.js";

const [WIDTH, HEIGHT] = [150, 30];

const quantile = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];

// What most days had, and whether a day has far more.
function usualOf(values, value) {
  const sorted = [...values].sort((a, b) => a - b);
  const [low, high] = [quantile(sorted, 0.25), quantile(sorted, 0.75)];
  return { low, high, isHigh: values.length >= 5 && value > high + 1.5 * (high - low) && value > 1.3 * high };
}

function line(days, isHigh) {
  const most = Math.max(...days.map((day) => day.value), 1);
  const x = (i) => 4 + (i * (WIDTH - 8)) / Math.max(days.length - 1, 1);
  const y = (value) => HEIGHT - 4 - (value / most) * (HEIGHT - 8);
  const done = days.filter((day) => !day.isUnfinished);
  const points = done.map((day, i) => `${x(i)},${y(day.value)}`).join(" ");
  const marks = days.slice(done.length - 1).map((day, i) => svg("circle", { cx: x(done.length - 1 + i), cy: y(day.value), r: 3, class: day.isUnfinished ? "unfinished" : isHigh ? "high" : "last" }));
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "trend-line", "aria-hidden": "true" }, svg("polyline", { points, class: "trend-days" }), marks);
}

export function drawTrends(data, { draw }) {
  const drawn = data.columns.filter((column) => draw.values.includes(column.name));
  return el("dl", { class: "cards trends" }, drawn.map(({ name, label: measure, kind: unit }) => {
    const days = data.values[draw.time].map((date, i) => ({ date, value: data.values[name][i], isUnfinished: data.values.is_unfinished[i] }));
    const done = days.filter((day) => !day.isUnfinished);
    const last = done.at(-1);
    if (!last) return el("div", { class: "card" }, el("dt", {}, measure), el("dd", {}, "–"));
    const usual = usualOf(done.slice(0, -1).map((day) => day.value), last.value);
    const about = done.length > 4 ? `usual ${show(unit, usual.low)} to ${show(unit, usual.high)}` : "too few days to compare";
    const newest = days.at(-1).date === new Date().toISOString().slice(0, 10) ? "today" : `on ${days.at(-1).date}`;
    const today = days.at(-1).isUnfinished ? `; ${show(unit, days.at(-1).value)} so far ${newest}` : "";
    return el("div", { class: `card ${usual.isHigh ? "warn" : ""}`, title: `${last.date} (UTC), the last complete day. The hollow mark is the day after, which is not over in the data.` },
      el("dt", {}, `${measure}, ${last.date}`),
      el("dd", {}, usual.isHigh ? el("span", { "aria-hidden": "true" }, "▲ ") : null, show(unit, last.value), line(days, usual.isHigh), el("span", { class: "faint" }, about + today)));
  }));
}
