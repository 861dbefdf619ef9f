// Curves over time, drawn by uPlot: one chart per value, one curve per battery, carrier or line.
import { canZoom, rangeOf, zoomOut, zoomTo } from "./address.js";
import { PALETTE } from "./chart.js";
import { el, loadScript, loadStyle } from "./dom.js";
import { instant, isNumeric, preference, scaled, show } from "./format.js";
import { drawTable } from "./table.js";

let loaded;
const load = () => {
  if (window.uPlot) return window.uPlot; // a report holds it
  loaded ??= (loadStyle("/static/vendor/uPlot.min.css"), loadScript("/static/vendor/uPlot.iife.min.js"));
  return loaded;
};

const DAY = 86400;
const DASHES = [[], [6, 4], [2, 3], [8, 3, 2, 3]];

function aligned(data, draw, value) {
  const kind = data.columns.find((column) => column.name === value).kind;
  const times = data.values[draw.time].map((time) => (typeof time === "string" ? Date.parse(`${time}T00:00:00Z`) : time) / 1000);
  const all = [...new Set(times)].sort((a, b) => a - b);
  const place = new Map(all.map((time, i) => [time, i]));
  const curves = new Map();
  for (let i = 0; i < data.rows; i += 1) {
    const name = draw.split ? String(data.values[draw.split][i]) : value;
    if (!curves.has(name)) curves.set(name, new Array(all.length).fill(null));
    curves.get(name)[place.get(times[i])] = scaled(kind, data.values[value][i]);
  }
  return { kind, all, curves };
}

// What happened at a moment is a line through the chart; the list of it is a panel of its own.
const MARKED = { failover: PALETTE[1], configuration: PALETTE[5], firmware: PALETTE[7], state: PALETTE[3] };

function drawMarks(chart, marks) {
  const { ctx, bbox } = chart;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const { at, what } of marks) {
    const x = chart.valToPos(at / 1000, "x", true);
    ctx.strokeStyle = MARKED[what];
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

// The day under way is hatched: its value is not comparable yet.
function drawUnfinished(chart, day, colour) {
  const { ctx, bbox } = chart;
  const left = Math.max(bbox.left, chart.valToPos(day - DAY / 2, "x", true));
  const right = bbox.left + bbox.width;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left, bbox.top, right - left, bbox.height);
  ctx.clip();
  ctx.strokeStyle = colour;
  ctx.lineWidth = devicePixelRatio;
  for (let x = left - bbox.height; x < right; x += 7 * devicePixelRatio) {
    ctx.beginPath();
    ctx.moveTo(x, bbox.top + bbox.height);
    ctx.lineTo(x + bbox.height, bbox.top);
    ctx.stroke();
  }
  ctx.restore();
}

const marksOf = (data) => Array.from({ length: data?.rows || 0 }, (_, i) => ({ at: data.values.happened_at[i], what: data.values.what[i] })).filter(({ what }) => MARKED[what]);

// Adds the curve of a limit that the values must stay below, if there is one; returns its name.
function limitOf(data, draw, value, all, curves) {
  const name = draw.limits?.[value];
  if (!name || data.values[name].every((one) => one === null)) return null;
  const { label } = data.columns.find((column) => column.name === name);
  curves.set(label, aligned(data, { ...draw, split: null }, name).curves.get(name));
  return label;
}

// Every chart of a page shows the chosen time, so that charts can be compared; all time is that of
// its values.
function shownTime(data, given, isDays, low, high) {
  const [from, to] = rangeOf(given, data.as_of).map((time) => (time === null ? null : time / 1000));
  if (from === null) return low === high ? [low - DAY / 2, high + DAY / 2] : [low, high];
  return isDays ? [Math.min(Math.floor(from / DAY) * DAY, low), Math.max((Math.ceil(to / DAY) - 1) * DAY, high, low + 1)] : [from, to];
}

function tick(seconds, step, isDays) {
  if (isDays && step < 86400 && seconds % 86400) return "";
  const text = isDays ? new Date(seconds * 1000).toISOString().replace("T", " ") : instant(seconds * 1000);
  return step >= 86400 || text.slice(11, 16) === "00:00" ? text.slice(5, 10) : text.slice(11, 16);
}

// A part of a chart that was dragged over is the time of the page; of days, whole days.
function zoom(chart, isDays) {
  const { left, width } = chart.select;
  chart.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
  if (width < 4 || !chart.root.matches(":hover")) return; // the other charts follow the pointer, too
  const [from, to] = [left, left + width].map((place) => chart.posToVal(place, "x"));
  if (isDays) zoomTo(Math.round(from / DAY) * DAY * 1000, (Math.round(to / DAY) + 1) * DAY * 1000);
  else zoomTo(from * 1000, to * 1000);
}

function chart(data, draw, value, width, given, marks) {
  const column = data.columns.find((one) => one.name === value);
  const { kind, all, curves } = aligned(data, draw, value);
  const limit = limitOf(data, draw, value, all, curves);
  const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
  const warn = getComputedStyle(document.documentElement).getPropertyValue("--warn").trim();
  const grid = getComputedStyle(document.documentElement).getPropertyValue("--line").trim();
  const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid } };
  const raw = (v) => (kind === "temperature" && preference("units") === "us" ? (v - 32) / 1.8 : v);
  const said = (v) => (v === null || v === undefined ? "–" : show(kind, raw(v)));
  const isDays = typeof data.values[draw.time][0] === "string";
  const isUnfinished = isDays && all.at(-1) === Math.floor(data.as_of / 1000 / DAY) * DAY;
  const options = {
    width,
    height: width < 500 ? 160 : 210,
    title: "",
    tzDate: preference("zone") === "utc" || isDays ? (seconds) => window.uPlot.tzDate(new Date(seconds * 1000), "UTC") : undefined,
    cursor: { y: false, sync: { key: "time" }, drag: { x: canZoom(), y: false, setScale: false }, bind: { dblclick: () => () => (canZoom() ? zoomOut() : null) } },
    hooks: { setSelect: [(chart) => zoom(chart, isDays)], drawClear: [(chart) => (isUnfinished ? drawUnfinished(chart, all.at(-1), grid) : null)], draw: [(chart) => drawMarks(chart, marks)] },
    scales: { x: { range: () => shownTime(data, given, isDays, all[0], all.at(-1)) }, y: kind === "percent" ? { range: [0, 100] } : { range: (_, low, high) => [Math.min(0, low), high === low ? high + 1 : high * 1.05] } },
    axes: [{ ...axis, values: (_, found, __, ___, step) => found.map((seconds) => tick(seconds, step, isDays)), space: 75 }, { ...axis, size: 74, values: (_, found) => found.map(said) }],
    series: [
      { label: isDays ? "Day" : "Time", value: (_, seconds) => (seconds === null ? "–" : isDays ? new Date(seconds * 1000).toISOString().slice(0, 10) : instant(seconds * 1000)) },
      ...[...curves.keys()].map((name, i) => ({
        label: draw.split || name === limit ? name : column.label,
        stroke: name === limit ? warn : PALETTE[i % PALETTE.length],
        dash: name === limit ? [8, 5] : DASHES[Math.floor(i / PALETTE.length + i) % DASHES.length],
        width: 2,
        spanGaps: true,
        points: { show: all.length === 1 || (all.length < 40 && name !== limit), size: 6 },
        value: (_, v) => said(v),
      })),
    ],
  };
  const holder = el("div", { class: "plot", role: "img", "aria-label": `${column.label} over time; the table below has the same values` });
  new window.uPlot(options, [all, ...curves.values()], holder);
  const note = isUnfinished ? el("span", { class: "faint" }, " The hatched day is not over.") : null;
  return el("figure", {}, el("figcaption", { title: column.meaning }, column.label, note), holder);
}

export async function drawSeries(data, { draw, title, state, width, given, path, read }) {
  await load();
  const marks = draw.marks && read ? marksOf(await read(path.replace(/[^/]+$/, draw.marks)).catch(() => null)) : [];
  const charts = draw.values.filter((value) => isNumeric(data.columns.find((c) => c.name === value).kind)).map((value) => chart(data, draw, value, Math.max(260, width), given, marks));
  const table = el("details", { class: "as-table" }, el("summary", {}, "As a table"));
  table.addEventListener("toggle", () => {
    if (table.open && table.children.length === 1) table.append(...drawTable(data, { title, state }));
  });
  const kinds = [...new Set(marks.map(({ what }) => what))];
  const legend = kinds.length ? el("p", { class: "legend" }, "Marked: ", kinds.map((what) => el("span", { class: "key" }, el("span", { class: "swatch line", style: { background: MARKED[what] } }), ` ${what}`))) : "";
  return [...charts, legend, data.is_cut ? el("p", { class: "more" }, `The first ${data.rows} values; choose a shorter time.`) : "", table];
}
