// The filter form: choices from the server, changes into the address.
import { changeView, form, fromInput, linkTo, toInput, view } from "./address.js";
import { debounced, el } from "./dom.js";
import { zoneName } from "./format.js";

const CHOICES = { account: "accounts", group: "groups", carrier: "carriers", type: "types" };
const RANGE_NAMES = { "1h": "last hour", "6h": "last 6 hours", "24h": "last 24 hours", "7d": "last 7 days", "30d": "last 30 days", "90d": "last 90 days", all: "all time" };

async function choices(name, given = {}) {
  const answer = await fetch(`/api/filters/${name}?${new URLSearchParams(given)}`);
  if (!answer.ok) return [];
  const { columns, rows, values } = await answer.json();
  return Array.from({ length: rows }, (_, i) => columns.map((column) => values[column.name][i]));
}

function fillSelect(name, rows) {
  const select = form()?.elements[name];
  if (!select) return;
  const chosen = view().get(name) || "";
  select.replaceChildren(el("option", { value: "" }, "all"));
  for (const row of rows) {
    const [value, label = value] = row;
    select.append(el("option", { value }, label || `${name} ${value}`));
  }
  if (chosen && ![...select.options].some((option) => option.value === chosen)) {
    select.append(el("option", { value: chosen }, `${chosen} (not in this snapshot)`));
  }
  select.value = chosen;
}

const routerLabel = ([id, name]) => `${name || "router"} · ${id}`;

async function suggestRouters() {
  const input = form().elements["f-search"];
  const text = input.value.trim();
  const named = text.match(/· (\d+)$/);
  if (named) {
    if (named[1] !== view().get("router")) changeView({ router: named[1] });
    return;
  }
  if (!text) {
    if (view().get("router")) changeView({ router: "" });
    return;
  }
  const given = { search: text };
  const account = view().get("account");
  if (account) given.account = account;
  const found = await choices("routers", given);
  const list = document.querySelector("#routers");
  list.replaceChildren(...found.map((row) => el("option", { value: routerLabel(row) }, row[2] || "")));
  input.setCustomValidity(found.length ? "" : "No router has this name.");
  return found;
}

async function takeFirst(event) {
  if (event.key !== "Enter") return;
  event.preventDefault();
  const found = await suggestRouters();
  if (found?.length) {
    event.target.value = routerLabel(found[0]);
    changeView({ router: String(found[0][0]) });
  } else if (found) event.target.reportValidity();
}

function sync() {
  const given = view();
  const fields = form().elements;
  for (const name of Object.keys(CHOICES)) if (fields[name]) fields[name].value = given.get(name) || "";
  if (fields.last) {
    const isFixed = Boolean(given.get("from") || given.get("to"));
    fields.last.value = isFixed ? "" : given.get("last") || "7d";
    for (const name of ["from", "to"]) {
      fields[name].value = toInput(given.get(name));
      fields[name].parentElement.hidden = fields.last.value !== "";
      fields[name].title = `Time in ${zoneName()}`;
    }
  }
  if (fields.router) showRouter(given.get("router"));
  const set = [...Object.keys(CHOICES), "router"].filter((name) => fields[name] && given.get(name)).length;
  document.querySelector("#narrow").textContent = set ? `Filters (${set})` : "Filters";
  for (const link of document.querySelectorAll("nav a")) link.href = linkTo(new URL(link.href).pathname, {});
}

async function showRouter(id) {
  const input = form().elements["f-search"];
  if (!id) {
    if (document.activeElement !== input) input.value = "";
    return;
  }
  if (input.value.endsWith(`· ${id}`)) return;
  const [row] = await choices("routers", { router: id });
  input.value = row ? routerLabel(row) : `not in this snapshot · ${id}`;
}

// The filters in words, for people who print the page or get the link.
export function inWords() {
  const fields = form()?.elements;
  const said = [];
  for (const name of Object.keys(CHOICES)) {
    const select = fields?.[name];
    if (select?.value) said.push(`${name} ${select.selectedOptions[0].textContent}`);
  }
  if (fields?.["f-search"]?.value && view().get("router")) said.push(`router ${fields["f-search"].value.replace(/^router · /, "")}`);
  if (fields?.last) {
    said.push(fields.last.value ? RANGE_NAMES[fields.last.value] : `from ${fields.from.value.replace("T", " ") || "…"} to ${fields.to.value.replace("T", " ") || "…"}`);
  }
  said.push(`times in ${zoneName()}`);
  return said.join(" · ");
}

function changed(event) {
  const { name, value } = event.target;
  if (name === "account") changeView({ account: value, group: "" });
  else if (name === "last" && value) changeView({ last: value, from: "", to: "" });
  else if (name === "last") {
    for (const end of ["from", "to"]) form().elements[end].parentElement.hidden = false;
    form().elements.from.focus();
  } else if (name === "from" || name === "to") changeView({ [name]: fromInput(value), last: "" });
  else if (CHOICES[name]) changeView({ [name]: value });
}

export async function startFilters() {
  if (!form()) return;
  const fields = form().elements;
  form().addEventListener("change", changed);
  form().addEventListener("submit", (event) => event.preventDefault());
  form().addEventListener("reset", (event) => {
    event.preventDefault();
    if (fields["f-search"]) fields["f-search"].value = "";
    changeView({ ...Object.fromEntries(Object.keys(CHOICES).map((name) => [name, ""])), router: "", last: "", from: "", to: "", day: "", at: "", vehicles: "" });
  });
  fields["f-search"]?.addEventListener("input", debounced(suggestRouters, 200));
  fields["f-search"]?.addEventListener("keydown", takeFirst);
  document.addEventListener("view", (event) => {
    if (event.detail.includes("account")) refreshChoices();
    sync();
  });
  addEventListener("popstate", sync);
  sync();
  await refreshChoices();
}

export async function refreshChoices() {
  if (!form()) return;
  const account = view().get("account");
  const offered = Object.keys(CHOICES).filter((name) => form().elements[name]);
  const found = await Promise.all(offered.map((name) => choices(CHOICES[name], name === "group" && account ? { account } : {})));
  offered.forEach((name, i) => fillSelect(name, found[i]));
}
