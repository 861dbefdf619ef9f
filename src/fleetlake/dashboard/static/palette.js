// The command palette: devices, pages, places, groups and reasons by a few letters.
import { linkTo } from "./address.js";
import { debounced, el } from "./dom.js";
import { visible } from "./table.js";

const MOST = 12;
const REASONS = [
  ["offline", "/devices?state=offline"], ["on a backup, failover, flapping", "/failover"], ["battery to change", "/devices?risk=high"],
  ["licence ended", "/devices?licence=ended"], ["licence ends soon", "/devices?licence=ends within 90 days"], ["behind on firmware", "/devices?behind=yes"],
  ["data cap", "/usage"], ["not located", "/map"], ["gap or hole in the data", "/data"],
];
const LISTS = [["account", "accounts"], ["group", "groups"], ["carrier", "carriers"], ["place", "places"]];
const listed = (kind, value) => (kind === "place" ? `/tables?${new URLSearchParams({ table: "place_visits", search: value, sort: "-arrived_at" })}` : `/devices?${new URLSearchParams({ [kind]: value })}`);

let known = null; // pages, reasons, accounts, groups and carriers

async function rows(name, given = {}) {
  const answer = await fetch(`/api/filters/${name}?${new URLSearchParams(given)}`).catch(() => null);
  if (!answer?.ok) return [];
  const { columns, rows: count, values } = await answer.json();
  return Array.from({ length: count }, (_, i) => columns.map((column) => values[column.name][i]));
}

async function choices() {
  const pages = [...document.querySelectorAll("nav a")].map((link) => ({ kind: "page", text: link.textContent, href: link.href }));
  const reasons = REASONS.map(([text, page]) => ({ kind: "reason", text, href: linkTo(page, {}) }));
  const lists = await Promise.all(LISTS.map(async ([kind, name]) => (await rows(name)).map(([value, text = value]) => ({ kind, text: text || String(value), href: listed(kind, value) }))));
  return [...pages, ...reasons, ...lists.flat()];
}

// Those that begin with the text come first, then those with a word that does, then the others.
function matching(all, text) {
  const rank = (one) => {
    const place = one.text.toLowerCase().indexOf(text);
    return place < 0 ? 9 : place === 0 ? 0 : /\w/.test(one.text[place - 1]) ? 2 : 1;
  };
  return all.map((one) => [rank(one), one]).filter(([place]) => place < 9).sort((a, b) => a[0] - b[0]).map(([, one]) => one);
}

export function openPalette() {
  if (document.querySelector("dialog[open]")) return;
  known ??= choices();
  const list = el("ul", { role: "listbox", id: "palette-list", "aria-label": "Found" });
  const input = el("input", { type: "text", role: "combobox", "aria-expanded": "true", "aria-controls": "palette-list", "aria-autocomplete": "list", "aria-label": "Search devices, pages, places, groups and reasons", placeholder: "Device, page, place, group, reason …", autocomplete: "off" });
  const dialog = el("dialog", { class: "palette", "aria-label": "Search" }, input, list);
  let found = [];
  let at = 0;
  let asked = 0;
  let shownFor = null; // the text that the list is of

  function choose(place) {
    at = Math.max(0, Math.min(place, found.length - 1));
    [...list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === at && found.length > 0)));
    input.setAttribute("aria-activedescendant", found.length ? `palette-${at}` : "");
    list.children[at]?.scrollIntoView({ block: "nearest" });
  }

  function show(items) {
    found = items.slice(0, MOST);
    list.replaceChildren(...found.map((one, i) => el("li", { role: "option", id: `palette-${i}`, onclick: () => location.assign(one.href) },
      el("span", {}, visible(one.text).slice(0, 80)), el("span", { class: "faint" }, one.kind))));
    if (!found.length) list.replaceChildren(el("li", { class: "hint", role: "option", "aria-disabled": "true" }, "Nothing has this name."));
    choose(0);
  }

  const look = async () => {
    const mine = (asked += 1);
    const written = input.value;
    const text = input.value.trim().toLowerCase();
    const [others, devices] = await Promise.all([known, text ? rows("routers", { search: input.value.trim().slice(0, 200) }) : []]);
    if (mine !== asked) return;
    shownFor = written;
    const named = devices.map(([id, name]) => ({ kind: "device", text: name || `router ${id}`, href: linkTo("/device", { router: id }) }));
    const rest = matching(others, text);
    show([...rest.filter((one) => one.kind === "page"), ...named.slice(0, text ? MOST - 4 : 0), ...rest.filter((one) => one.kind !== "page")]);
  };

  input.addEventListener("input", debounced(look, 100));
  async function go() {
    while (shownFor !== input.value) await look(); // Enter came before the answer
    if (found[at]) location.assign(found[at].href);
  }

  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) choose(at + step);
    else if (event.key === "Enter") go();
    else return;
    event.preventDefault();
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  look();
}
