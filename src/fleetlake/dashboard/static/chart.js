// Charts without a library: bars, heat maps and lanes, as tables and SVG.
import { canZoom, linkTo, rangeOf, zoomTo } from "./address.js";
import { el, svg } from "./dom.js";
import { duration, instant, isNumeric, show } from "./format.js";
import { badge, cellLink, deviceLink, deviceName, firstRows, fitted, timeCell, wrapped } from "./table.js";

// Okabe and Ito's colours, which colour-blind people tell apart; black and yellow are left out.
export const PALETTE = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#8c6d1f", "#6a51a3"];

const columnNamed = (data, name) => data.columns.find((column) => column.name === name);
const textOf = (data, name, row) => {
  const column = columnNamed(data, name);
  return wrapped(show(column.kind, data.values[name][row]));
};

export function drawBars(data, { draw, title, state }) {
  const [labels, value, extra] = [draw.label, draw.value, draw.text || []];
  const largest = Math.max(...data.values[value].map((v) => v || 0), 0) || 1;
  const shown = Math.min(data.rows, state.rows || firstRows(15));
  const names = [...labels, value, ...extra];
  const head = names.map((name) => el("th", { scope: "col", title: columnNamed(data, name).meaning, class: isNumeric(columnNamed(data, name).kind) ? "number" : null }, columnNamed(data, name).label));
  head.splice(labels.length, 0, el("th", { scope: "col", class: "bar" }, el("span", { class: "hidden" }, "bar")));
  const rows = Array.from({ length: shown }, (_, i) => {
    const full = data.values[value][i] || 0;
    const part = draw.part ? data.values[draw.part][i] || 0 : 0;
    const bar = el("td", { class: "bar", "aria-hidden": "true" }, el("div", { class: "fill", style: { width: `${(100 * full) / largest}%` } },
      part ? el("div", { class: "part", style: { width: `${(100 * part) / full}%` } }) : null));
    const cells = names.map((name, n) => {
      const kind = columnNamed(data, name).kind;
      const raw = data.values[name][i];
      const cell = name === "router_name" ? deviceLink(data, i) : name === "severity" || name === "verdict" ? badge(raw) : kind === "instant" && raw !== null ? timeCell(raw) : cellLink(textOf(data, name, i), draw.links?.[name], data, i);
      return el(n ? "td" : "th", { scope: n ? null : "row", "data-label": n ? columnNamed(data, name).label : null, class: isNumeric(kind) ? "number" : null }, cell);
    });
    cells.splice(labels.length, 0, bar);
    return el("tr", { tabindex: "-1", "data-row": "" }, cells);
  });
  const table = el("table", { class: "bars rows" }, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows));
  const more = el("p", { class: "more" });
  if (shown < data.rows) {
    more.append(`${shown} of ${data.rows} rows. `, el("button", { type: "button", onclick: (event) => {
      state.rows = data.rows;
      event.target.closest(".body").replaceChildren(...drawBars(data, { draw, title, state }));
    } }, "Show all"));
  }
  const note = draw.part ? el("p", { class: "legend" }, el("span", { class: "swatch part" }), ` of which ${columnNamed(data, draw.part).label.toLowerCase()}`) : null;
  return [fitted(el("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": `${title}, table with bars` }, table)), note, more].filter(Boolean);
}

function groups(data, name, limit) {
  const found = new Map();
  for (let i = 0; i < data.rows; i += 1) {
    const key = data.values[name]?.[i] ?? deviceName(data, i);
    if (!found.has(key)) found.set(key, []);
    found.get(key).push(i);
  }
  return { shown: [...found].slice(0, limit), count: found.size };
}

export function drawHeat(data, { draw, title, state }) {
  const laneKey = data.values.router_id ? "router_id" : draw.row;
  const { shown, count } = groups(data, laneKey, state.rows || firstRows(24));
  const days = [...new Set(data.values[draw.column])].sort();
  const step = (value) => (value === null ? "none" : draw.steps.findIndex((limit) => value >= limit - 1e-9));
  const head = el("tr", {}, el("th", { scope: "col" }, columnNamed(data, draw.row).label), days.map(dayHead));
  const rows = shown.map(([, indexes]) => {
    const byDay = new Map(indexes.map((i) => [data.values[draw.column][i], i]));
    return el("tr", {}, el("th", { scope: "row" }, deviceLink(data, indexes[0])), days.map((day) => {
      const i = byDay.get(day);
      if (i === undefined) return el("td", { class: "heat none" }, "");
      const value = data.values[draw.value][i];
      const level = step(value);
      const told = draw.text.map((name) => `${columnNamed(data, name).label}: ${textOf(data, name, i)}`).join("\n");
      const text = value === null ? "–" : value === 100 ? "100" : value.toFixed(value >= 10 && value < 99.9 ? 1 : 2);
      return el("td", { class: `heat step-${level === -1 ? draw.steps.length : level}`, title: `${day}\n${told}` }, text);
    }));
  });
  const legend = el("p", { class: "legend" }, "Percent: ", draw.steps.map((limit, i) => el("span", { class: `chip heat step-${i}` }, i ? `≥ ${limit}` : `${limit}`)), el("span", { class: `chip heat step-${draw.steps.length}` }, `< ${draw.steps.at(-1)}`));
  const scroll = el("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": `${title}, table by day` }, el("table", { class: "heatmap" }, el("thead", {}, head), el("tbody", {}, rows)));
  const showNewest = (isTooWide) => { if (isTooWide?.()) scroll.scrollLeft = scroll.scrollWidth; };
  const parts = [legend, fitted(scroll, showNewest)];
  if (shown.length < count) {
    parts.push(el("p", { class: "more" }, `${shown.length} of ${count}. `, el("button", { type: "button", onclick: (event) => {
      state.rows = shown.length + 50;
      event.target.closest(".body").replaceChildren(...drawHeat(data, { draw, title, state }));
    } }, "Show more")));
  }
  return parts;
}

const STATES = { proven: ["✓", "step-0"], "in part": ["◐", "step-1"], hole: ["✕", "step-3"], lost: ["▲", "step-5"] };

export function drawCalendar(data, { draw, title }) {
  const days = [...new Set(data.values[draw.column])].sort().reverse();
  const { shown } = groups(data, draw.row, 1000);
  const rows = shown.map(([name, indexes]) => {
    const byDay = new Map(indexes.map((i) => [data.values[draw.column][i], i]));
    return el("tr", {}, el("th", { scope: "row" }, name), days.map((day) => {
      const i = byDay.get(day);
      if (i === undefined) return el("td", { class: "heat none" }, "");
      const [mark, look] = STATES[data.values[draw.value][i]] || ["?", "none"];
      const told = draw.text.map((one) => `${columnNamed(data, one).label}: ${show(columnNamed(data, one).kind, data.values[one][i])}`).join("\n");
      return el("td", { class: `heat ${look}`, title: `${name}, ${day}\n${told}` }, mark, el("span", { class: "hidden" }, ` ${data.values[draw.value][i]}`));
    }));
  });
  const head = el("tr", {}, el("th", { scope: "col" }, "Stream"), days.map((day) => el("th", { scope: "col", title: day }, day.slice(5))));
  return el("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": `${title}, table by day` }, el("table", { class: "heatmap calendar" }, el("thead", {}, head), el("tbody", {}, rows)));
}

function ticks(start, end, width) {
  const sizes = [3e5, 6e5, 18e5, 3600e3, 3 * 3600e3, 6 * 3600e3, 12 * 3600e3, 864e5, 2 * 864e5, 7 * 864e5, 14 * 864e5, 30 * 864e5];
  const wanted = Math.max(2, Math.floor(width / 110));
  const size = sizes.find((s) => (end - start) / s <= wanted) || sizes.at(-1);
  const found = [];
  for (let t = Math.ceil(start / size) * size; t < end; t += size) found.push(t);
  return { found, isHours: size < 864e5 };
}

// Dragging over the lanes chooses the time of the page.
function dragged(picture, left, timeAt) {
  const veil = svg("rect", { class: "veil", y: 0, height: "100%", "pointer-events": "none" });
  let start = null;
  let isMoved = false;
  const place = (event) => Math.max(left, event.clientX - picture.getBoundingClientRect().left);
  const drawVeil = (event) => {
    const [low, high] = [start, place(event)].sort((a, b) => a - b);
    veil.setAttribute("x", low);
    veil.setAttribute("width", high - low);
    return [low, high];
  };
  picture.addEventListener("dragstart", (event) => event.preventDefault());
  picture.addEventListener("pointerdown", (event) => {
    if (event.button || event.pointerType === "touch" || place(event) <= left) return;
    [start, isMoved] = [place(event), false];
  });
  picture.addEventListener("pointermove", (event) => {
    if (start === null) return;
    const [low, high] = drawVeil(event);
    if (isMoved || high - low < 5) return;
    isMoved = true;
    picture.setPointerCapture(event.pointerId);
    picture.append(veil);
  });
  picture.addEventListener("pointerup", (event) => {
    if (isMoved) zoomTo(...drawVeil(event).map(timeAt));
    start = null;
    veil.remove();
  });
  picture.addEventListener("click", (event) => { if (isMoved) event.preventDefault(); }, true); // it was no choice of a bar
}

// The heading of a day leads to that day only.
function dayHead(day) {
  const text = day.slice(5);
  const next = Date.parse(`${day}T00:00:00Z`) + 864e5;
  return el("th", { scope: "col", title: day }, canZoom() ? el("button", { type: "button", title: `Show ${day} only`, onclick: () => zoomTo(next - 864e5, next) }, text) : text);
}

// A kind keeps its colour when other filters show others: the first that is drawn has the first.
const coloured = [];

function colourOf(kind) {
  if (!coloured.includes(kind)) coloured.push(kind);
  return PALETTE[coloured.indexOf(kind) % PALETTE.length];
}

export function drawLanes(data, { draw, title, state, width, given }) {
  const { shown, count } = groups(data, "router_id", state.rows || firstRows(15));
  const open = data.values[draw.open];
  const asOf = data.as_of;
  const starts = data.values[draw.start];
  const ends = data.values[draw.end].map((end, i) => (open[i] ? Math.max(end ?? 0, asOf) : end ?? starts[i]));
  const [chosen, to] = rangeOf(given, asOf);
  const from = chosen ?? Math.min(...starts);
  const [height, top, left] = [26, 22, width < 600 ? 0 : 190];
  const lane = width < 600 ? height * 1.7 : height;
  const x = (time) => left + ((Math.min(Math.max(time, from), to) - from) / (to - from)) * (width - left - 8);
  const kinds = [...new Set(data.values[draw.colour])].sort();
  kinds.forEach(colourOf);
  const name = (kind) => kind || "cause unknown";
  const { found, isHours } = ticks(from, to, width - left);
  const picture = svg("svg", { class: "lanes", width, height: top + shown.length * lane + 6, role: "group", "aria-label": `${title}; the table below has the same episodes` },
    svg("defs", {}, svg("pattern", { id: "open", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, svg("rect", { width: 3, height: 6, class: "hatch" }))));
  for (const time of found) {
    picture.append(svg("line", { x1: x(time), x2: x(time), y1: top - 4, y2: top + shown.length * lane, class: "grid" }),
      svg("text", { x: x(time), y: 12, class: "tick" }, isHours ? instant(time).slice(5) : instant(time).slice(5, 10)));
  }
  shown.forEach(([id, indexes], row) => {
    const y = top + row * lane;
    const label = svg("a", { href: linkTo("/device", { router: id }) }, svg("text", { x: 0, y: y + 16, class: "label" }, deviceName(data, indexes[0]).slice(0, 26)));
    picture.append(svg("line", { x1: 0, x2: width, y1: y + lane, y2: y + lane, class: "grid" }), label);
    for (const i of indexes) {
      const kind = data.values[draw.colour][i];
      const told = `${deviceName(data, i)}: ${instant(starts[i])} to ${open[i] ? "now" : instant(ends[i])}, ${duration(data.values.duration_s[i])}; ${name(kind)}; ${data.values.to_carrier[i] || "carrier unknown"}`;
      const place = { x: x(starts[i]), y: y + (width < 600 ? 22 : 5), width: Math.max(3, x(ends[i]) - x(starts[i])), height: 16, rx: 2 };
      const bar = svg("rect", { ...place, fill: colourOf(kind) }, svg("title", {}, told));
      const { href } = cellLink("", draw.links?.[draw.start] || "/device?router={router_id}", data, i);
      picture.append(href ? svg("a", { href, tabindex: -1, "aria-hidden": "true" }, bar) : bar);
      if (open[i]) picture.append(svg("rect", { ...place, fill: "url(#open)", "pointer-events": "none" }));
    }
  });
  if (canZoom()) dragged(picture, left, (place) => from + ((place - left) / (width - left - 8)) * (to - from));
  const legend = el("p", { class: "legend" }, kinds.map((kind) => el("span", { class: "key" }, el("span", { class: "swatch", style: { background: colourOf(kind) } }), ` ${name(kind)}`)));
  const parts = [legend, picture];
  if (shown.length < count) {
    parts.push(el("p", { class: "more" }, `${shown.length} of ${count} routers. `, el("button", { type: "button", onclick: (event) => {
      state.rows = shown.length + 25;
      event.target.closest(".body").replaceChildren(...drawLanes(data, { draw, title, state, width, given }));
    } }, "Show more")));
  }
  if (data.is_cut) parts.push(el("p", { class: "more" }, `The first ${data.rows} episodes; narrow the filters for the others.`));
  return parts;
}
