// The view is in the address: filters of the form, the map's day and moment.
import { instant, preference } from "./format.js";

const FORM = ["account", "group", "router", "carrier", "last", "from", "to"];
const KEPT = [...FORM];
const DEFAULT_RANGE = "7d";

const RANGES = { "1h": 3600e3, "6h": 6 * 3600e3, "24h": 864e5, "7d": 7 * 864e5, "30d": 30 * 864e5, "90d": 90 * 864e5 };

export const form = () => document.querySelector("#filters");

export function view() {
  return new URLSearchParams(location.search);
}

// What a panel's address takes: with the range that the page has by default.
export function query(more = {}) {
  const given = view();
  for (const name of ["kiosk", "pages"]) given.delete(name); // of the screen, not of the data
  if (form()?.elements.last && !given.get("last") && !given.get("from") && !given.get("to")) {
    given.set("last", DEFAULT_RANGE);
  }
  for (const [name, value] of Object.entries(more)) given.set(name, value);
  return given;
}

export function changeView(changes, { replace = false } = {}) {
  const given = view();
  for (const [name, value] of Object.entries(changes)) {
    if (value === "" || value === null || value === undefined) given.delete(name);
    else given.set(name, value);
  }
  const address = `${location.pathname}${given.size ? `?${given}` : ""}${location.hash}`;
  history[replace ? "replaceState" : "pushState"](null, "", address);
  document.dispatchEvent(new CustomEvent("view", { detail: Object.keys(changes) }));
}

// The chosen time: where it begins, null for all time, and where it ends.
export function rangeOf(given, asOf) {
  const [from, to] = ["from", "to"].map((name) => Date.parse(given.get(name)) || null);
  const last = from || to ? null : RANGES[given.get("last")];
  return [from ?? (last ? asOf - last : null), to ?? asOf];
}

// A chart changes the page's time only where the page has one; a report has none.
export const canZoom = () => Boolean(form()?.elements.last);

export function zoomTo(from, to) {
  const text = (time) => new Date(Math.round(time / 1000) * 1000).toISOString().replace(".000", "");
  if (to - from >= 1000) changeView({ from: text(from), to: text(to), last: "" });
}

export const zoomOut = () => changeView({ from: "", to: "", last: "" });

// A link to another page that keeps the filters which make sense there.
export function linkTo(page, changes) {
  const given = view();
  const kept = new URLSearchParams();
  for (const name of KEPT) if (given.get(name)) kept.set(name, given.get(name));
  for (const [name, value] of Object.entries(changes)) kept.set(name, value);
  const [address, place] = page.split("#");
  const [path, more] = address.split("?");
  for (const [name, value] of new URLSearchParams(more)) kept.set(name, value);
  if (path === "/devices") kept.delete("router"); // the list is of all
  return `${path}${kept.size ? `?${kept}` : ""}${place ? `#${place}` : ""}`;
}

export function toInput(iso) {
  if (!iso) return "";
  const time = Date.parse(iso);
  return Number.isNaN(time) ? "" : instant(time).replace(" ", "T");
}

export function fromInput(text) {
  if (!text) return "";
  const time = new Date(preference("zone") === "utc" ? `${text}Z` : text);
  return Number.isNaN(time.getTime()) ? "" : time.toISOString().replace(".000", "");
}
