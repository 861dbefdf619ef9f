// Tables: every panel's rows can be read as one; sorting and "show more" need no server.
import { linkTo } from "./address.js";
import { debounced, el } from "./dom.js";
import { ago, instant, isNumeric, place, preference, setPreference, show } from "./format.js";

const FIRST_ROWS = 12;
const LITTLE = 30; // rows that a narrow screen shows without a search and headings that sort
const NARROW_COLUMNS = 7;
const spareRows = () => (innerWidth > 600 ? 3 : 1); // that are shown rather than a button
const STEP_ROWS = 100;
const PAIRS = [
  ["latitude_deg", "longitude_deg", "Place"],
  ["start_latitude_deg", "start_longitude_deg", "From"],
  ["end_latitude_deg", "end_longitude_deg", "To"],
  ["cell_latitude_deg", "cell_longitude_deg", "Place"],
];

// Control and direction characters could make a text look like another one: they show as a mark.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
export const visible = (text) => text.replace(UNSEEN, "\ufffd");

export const deviceName = (data, row) => {
  const name = visible(data.values.router_name?.[row] ?? "");
  const id = data.values.router_id?.[row];
  return name || (id === null || id === undefined ? "–" : `router ${id}`);
};

// A report is a file: there is no other page to lead to.
const isReport = () => document.documentElement.dataset.page === "report";

// A link from a cell to another page; `{column}` in its address stands for the row's value.
export function cellLink(cell, page, data, row) {
  if (!page || isReport()) return cell;
  const filled = page.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(data.values[name][row]));
  return el("a", { href: linkTo(filled, {}) }, cell);
}

export function deviceLink(data, row, attributes = {}) {
  const id = data.values.router_id?.[row];
  const name = deviceName(data, row);
  if (id === null || id === undefined || isReport()) return el("span", { class: name.length > 60 ? "long" : null }, name.length > 60 ? `${name.slice(0, 60)}…` : name);
  const isLong = name.length > 60;
  return el("a", { href: linkTo("/device", { router: id }), ...attributes, class: `device ${isLong ? "long" : ""}`, title: isLong ? name.slice(0, 2000) : null }, isLong ? `${name.slice(0, 60)}…` : name);
}

// Long texts are cut for reading (the export has all of it); very long words may break anywhere.
const LONGEST = 300;
export function wrapped(text) {
  if (typeof text !== "string") return text;
  text = visible(text);
  if (text.length <= LONGEST && !/\S{40}/.test(text)) return text.length > 30 && text.includes(" ") ? el("span", { class: "sentence" }, text) : text;
  return el("span", { class: "long", title: text.slice(0, 2000) }, text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text);
}

// How many rows are shown first: fewer on a narrow screen, where a row takes several lines.
export const firstRows = (wide) => (innerWidth > 600 ? wide : Math.ceil(wide / 5));

// A table too wide for its place gets closer cells. If that is not enough, `drop` leaves out the
// last columns one by one; at once, if each row is to stay `isOneLine`.
export function fitted(scroll, drop = null, isOneLine = false) {
  let before = 0;
  new ResizeObserver(() => {
    if (scroll.clientWidth === before) return;
    before = scroll.clientWidth;
    scroll.classList.remove("tight");
    const isTooWide = () => scroll.scrollWidth > scroll.clientWidth + 1;
    if (drop) drop(null);
    if (isTooWide() && !isOneLine) scroll.classList.add("tight");
    if (drop) drop(isTooWide);
  }).observe(scroll);
  return scroll;
}

// What is shown of each column: name, heading, and the cell of a row.
export function shownColumns(data, draw = {}) {
  const hidden = new Set(draw.hide || []);
  for (const name of draw.hide_if_same || []) if (new Set(data.values[name]).size < 2) hidden.add(name);
  const has = (name) => data.columns.some((column) => column.name === name);
  const shown = [];
  if (has("router_id") && has("router_name")) hidden.add("router_id");
  for (const column of data.columns) {
    const pair = PAIRS.find(([first]) => first === column.name);
    if (pair && has(pair[1])) {
      hidden.add(pair[1]);
      shown.push({
        ...column,
        label: pair[2],
        kind: "text",
        cell: (row) => place(data.values[pair[0]][row], data.values[pair[1]][row]),
      });
    } else if (!hidden.has(column.name)) shown.push({ ...column, cell: (row) => cellOf(data, column, row, draw) });
  }
  return shown;
}

function cellOf(data, column, row, draw) {
  if (draw.cells?.[column.name]) return draw.cells[column.name](row);
  const value = data.values[column.name][row];
  if (column.name === "router_name" && data.values.router_id) return deviceLink(data, row);
  if (column.name === draw.link_day) return dayLink(value);
  if (column.name === "object_name" && data.values.object_type?.[row] === "router") return objectLink(data, row);
  if (value === null || value === undefined || value === "") return "–";
  const linked = (cell) => cellLink(cell, draw.links?.[column.name], data, row);
  if (column.kind === "instant") return linked(timeCell(value, draw.ages?.includes(column.name)));
  if (["severity", "risk", "connection_state", "verdict"].includes(column.name)) return badge(value);
  return linked(wrapped(show(column.kind, value)));
}

export function timeCell(value, withAge) {
  const time = el("time", { datetime: new Date(value).toISOString(), title: instant(value, { seconds: true }) }, instant(value));
  return withAge ? el("span", {}, time, el("span", { class: "faint" }, ` ${ago(value)}`)) : time;
}

// What was changed, if it is a router: its name leads to it.
function objectLink(data, row) {
  const named = { rows: 1, values: { router_id: [data.values.object_id[row]], router_name: [data.values.object_name[row]] } };
  return deviceLink(named, 0);
}

function dayLink(day) {
  if (isReport()) return day;
  const router = new URLSearchParams(location.search).get("router");
  return el("a", { class: "day", href: linkTo("/map", { router: router || "", day }) }, day);
}

const MARKS = { urgent: "▲", soon: "◆", watch: "●", high: "▲", medium: "◆", low: "●", offline: "▲", online: "●", initialized: "◆" };

export function badge(value) {
  const mark = MARKS[value];
  return el("span", { class: `badge ${mark ? value : ""}` }, mark ? el("span", { "aria-hidden": "true" }, `${mark} `) : null, value);
}

// The rows whose text holds what is looked for, whatever the column.
function rowsWith(data, columns, wanted) {
  const rows = Array.from({ length: data.rows }, (_, i) => i);
  const text = (wanted || "").trim().toLowerCase();
  if (!text) return rows;
  const shown = (column, row) => {
    const cell = column.cell(row);
    return typeof cell === "string" ? cell : cell.textContent;
  };
  return rows.filter((row) => columns.some((column) => shown(column, row).toLowerCase().includes(text)));
}

function order(data, sort, rows) {
  if (!sort) return rows;
  const values = data.values[sort.name];
  const sign = sort.descending ? -1 : 1;
  return rows.sort((a, b) => {
    const [x, y] = [values[a], values[b]];
    if (x === y) return a - b;
    if (x === null || x === undefined) return 1;
    if (y === null || y === undefined) return -1;
    return (typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y) * sign;
  });
}

const columnsKey = (path) => `columns.${path || location.pathname}`;

// A choice of columns, remembered in this browser; without one, as many as fit are shown.
function columnChoice(path, columns, isShown, chosen) {
  const boxes = columns.slice(1).map((column) => el("label", { title: column.meaning }, el("input", { type: "checkbox", value: column.name, checked: isShown(column), onchange: () => {
    setPreference(columnsKey(path), [columns[0].name, ...boxes.map((box) => box.firstChild).filter((box) => box.checked).map((box) => box.value)].join(" "));
    chosen();
  } }), ` ${column.label}`));
  const reset = el("button", { type: "button", onclick: () => { setPreference(columnsKey(path), ""); chosen(); } }, "As many as fit");
  return el("details", { class: "menu" }, el("summary", {}, "Columns"), el("div", {}, boxes, reset));
}

export function drawTable(data, { draw = {}, title = "", state = {}, rowClass = null, path = "", isWhole = true, tools = [], sorted = null, onSort = null, isOneLine = false } = {}) {
  const columns = shownColumns(data, draw);
  if (draw.sort) state.sort ??= { name: draw.sort.replace("-", ""), descending: draw.sort.startsWith("-") };
  const body = el("tbody");
  const first = firstRows(draw.first_rows || FIRST_ROWS);
  const more = el("p", { class: "more" });
  const left = el("p", { class: "left" });
  const finder = !isWhole || data.rows <= (innerWidth > 600 ? first + spareRows() : LITTLE) ? null : el("input", { type: "search", class: "finder", "aria-label": `Find in the rows of ${title}`, placeholder: "Find in these rows", value: state.find || null });
  finder?.addEventListener("input", debounced(() => { state.find = finder.value; fillBody(); }, 200));
  const heads = columns.map((column) => {
    const button = el("button", { type: "button", title: column.meaning || column.origin }, column.label);
    const head = el("th", { scope: "col", class: isNumeric(column.kind) ? "number" : null }, button);
    button.addEventListener("click", () => {
      if (onSort) {
        onSort(column.name);
        return;
      }
      const isSame = state.sort?.name === column.name;
      state.sort = { name: column.name, descending: isSame ? !state.sort.descending : isNumeric(column.kind) || column.kind === "instant" };
      fillBody();
    });
    return head;
  });
  function fillBody() {
    const rows = order(data, onSort ? null : state.sort, rowsWith(data, columns, isWhole ? state.find : ""));
    const count = Math.min(rows.length, state.rows || (rows.length <= first + spareRows() ? rows.length : first));
    body.replaceChildren(...rows.slice(0, count).map((row) => el("tr", { class: rowClass?.(row), tabindex: "-1", "data-row": "" },
      columns.map((column, i) => {
        const cell = column.cell(row);
        return el(i ? "td" : "th", { scope: i ? null : "row", "data-label": i ? column.label : null, class: `${isNumeric(column.kind) ? "number" : column.kind === "text" ? "text" : ""} ${cell === "–" ? "none" : ""}` }, cell);
      }))));
    heads.forEach((head, i) => {
      const by = sorted || state.sort;
      const isSorted = by?.name === columns[i].name;
      if (isSorted) head.setAttribute("aria-sort", by.descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    more.replaceChildren();
    if (count < rows.length) {
      more.append(`${count} of ${rows.length} rows. `, el("button", { type: "button", onclick: () => {
        state.rows = count + STEP_ROWS;
        fillBody();
      } }, `Show ${Math.min(STEP_ROWS, rows.length - count)} more`));
    } else if (!rows.length) more.append("No row holds that text.");
    else if (data.is_cut) more.append(`The first ${rows.length} rows. There are more: narrow the filters, or export them.`);
    hide();
  }
  let dropped = new Set();
  const chosen = () => preference(columnsKey(path))?.split(" ").filter(Boolean) || [];
  const isShown = (column) => !dropped.has(column.name);
  function hide() {
    for (const row of table.rows) columns.forEach((column, i) => { row.cells[i].hidden = dropped.has(column.name); });
  }
  function drop(isTooWide) {
    const kept = chosen();
    if (!isTooWide) dropped = new Set(columns.filter(({ name }, i) => (kept.length ? !kept.includes(name) : innerWidth <= 600 && i >= NARROW_COLUMNS)).map(({ name }) => name));
    hide();
    for (let last = columns.length - 1; isTooWide && !kept.length && last > 2 && isTooWide(); last -= 1) {
      dropped.add(columns[last].name);
      hide();
    }
    const names = columns.filter((column) => !isShown(column)).map((column) => column.label);
    left.textContent = names.length && !kept.length && !isOneLine ? `Not shown: ${names.join(", ")}.` : "";
    left.hidden = !left.textContent;
    choice.replaceChildren(names.length || kept.length ? columnChoice(path, columns, isShown, again) : "");
  }
  const choice = el("span", {});
  const table = el("table", { class: `rows ${finder || onSort ? "" : "few"} ${isOneLine ? "one-line" : ""}` }, el("thead", {}, el("tr", {}, heads)), body);
  const scroll = el("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": `${title}, table` }, table);
  function again() {
    drop(null);
    scroll.classList.toggle("tight", !isOneLine && scroll.scrollWidth > scroll.clientWidth + 1);
    choice.querySelector("details").open = true;
  }
  fillBody();
  return [el("div", { class: "table-tools" }, finder, tools, choice), fitted(scroll, drop, isOneLine), left, more];
}

export function drawCards(data, { draw = {} } = {}) {
  return el("dl", { class: "cards" }, data.columns.map((column) => {
    const value = data.values[column.name][0];
    const link = draw.links?.[column.name];
    const isWarning = draw.warn?.includes(column.name) && value > 0;
    const none = draw.empty?.[column.name];
    const text = value === null && none ? none : column.kind === "instant" && value !== null ? timeCell(value, true) : show(column.kind, value);
    return el("div", { class: `card ${isWarning ? "warn" : ""}`, title: `${column.origin}` },
      el("dt", {}, column.label),
      el("dd", {}, isWarning ? el("span", { "aria-hidden": "true" }, "▲ ") : null,
        link && !isReport() ? el("a", { href: link.startsWith("#") ? link : linkTo(link, {}) }, text) : text));
  }));
}

export function drawFacts(data, { draw = {} } = {}) {
  const facts = el("dl", { class: "facts" }, shownColumns(data, draw).filter((column) => column.name !== "router_name" || document.documentElement.dataset.page !== "device").map((column) =>
    el("div", {}, el("dt", { title: column.meaning }, column.label), el("dd", {}, column.cell(0)))));
  if (isReport() || (data.values.latitude_deg?.[0] ?? null) === null) return facts;
  const map = el("p", {}, el("a", { href: linkTo("/map", { router: data.values.router_id[0] }) }, "Show it and its tracks on the map"));
  return [facts, map];
}
