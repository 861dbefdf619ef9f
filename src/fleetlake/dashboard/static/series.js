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

function chart(data, draw, value, width, given) {
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
  const options = {
    width,
    height: 210,
    title: "",
    tzDate: preference("zone") === "utc" || isDays ? (seconds) => window.uPlot.tzDate(new Date(seconds * 1000), "UTC") : undefined,
    cursor: { y: false, sync: { key: "time" }, drag: { x: canZoom(), y: false, setScale: false }, bind: { dblclick: () => () => (canZoom() ? zoomOut() : null) } },
    hooks: { setSelect: [(chart) => zoom(chart, isDays)] },
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
  return el("figure", {}, el("figcaption", { title: column.meaning }, column.label), holder);
}

export async function drawSeries(data, { draw, title, state, width, given }) {
  await load();
  const charts = draw.values.filter((value) => isNumeric(data.columns.find((c) => c.name === value).kind)).map((value) => chart(data, draw, value, Math.max(260, width), given));
  const table = el("details", { class: "as-table" }, el("summary", {}, "As a table"));
  table.addEventListener("toggle", () => {
    if (table.open && table.children.length === 1) table.append(...drawTable(data, { title, state }));
  });
  return [...charts, data.is_cut ? el("p", { class: "more" }, `The first ${data.rows} values; choose a shorter time.`) : "", table];
}
