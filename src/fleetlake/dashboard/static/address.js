// The view is in the address: filters of the form, the map's day and moment.
import { instant, preference } from "./format.js";

const FORM = ["account", "group", "router", "carrier", "last", "from", "to"];
const KEPT = [...FORM];
const DEFAULT_RANGE = "7d";

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

// A link to another page that keeps the filters which make sense there.
export function linkTo(page, changes) {
  const given = view();
  const kept = new URLSearchParams();
  for (const name of KEPT) if (given.get(name)) kept.set(name, given.get(name));
  for (const [name, value] of Object.entries(changes)) kept.set(name, value);
  const [path, more] = page.split("?");
  for (const [name, value] of new URLSearchParams(more)) kept.set(name, value);
  return `${path}?${kept}`;
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
