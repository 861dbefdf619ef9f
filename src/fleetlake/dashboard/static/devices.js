// The page of devices: facets with counts, and the inventory, both narrowed and sorted by the server.
import { changeView, view } from "./address.js";
import { debounced, el } from "./dom.js";
import { drawTable, visible } from "./table.js";

const FACETS = {
  state: "State", behind: "Firmware", risk: "Battery risk", licence: "Licence", product: "Product",
  firmware: "Firmware version", carrier: "Carrier", account: "Account", group: "Group",
};
const FIRST = 6;

const chosenFacets = () => Object.keys(FACETS).filter((name) => view().get(name));
const unknown = (name, value) => (name === "behind" ? { yes: "behind", no: "current" }[value] : null) || value;

let labels = {}; // of the chosen values, as the facets tell them

export function drawFacets(data, { state }) {
  const found = Object.fromEntries(Object.keys(FACETS).map((name) => [name, []]));
  for (let i = 0; i < data.rows; i += 1) {
    const one = Object.fromEntries(["facet", "value", "label", "devices"].map((name) => [name, data.values[name][i]]));
    const isChosen = view().get(one.facet) === one.value;
    if (isChosen) labels[one.facet] = one.label;
    if (one.devices || isChosen) found[one.facet].push({ ...one, isChosen });
  }
  document.dispatchEvent(new CustomEvent("facets"));
  const facet = ([name, values]) => {
    const isOpen = (state.open ??= new Set()).has(name);
    values.sort((a, b) => b.isChosen - a.isChosen);
    const shown = isOpen ? values : values.slice(0, FIRST);
    return el("fieldset", {}, el("legend", {}, FACETS[name]), shown.map((one) => el("button", {
      type: "button", "aria-pressed": String(one.isChosen), title: visible(one.label).slice(0, 200),
      onclick: () => changeView({ [name]: one.isChosen ? "" : one.value }),
    }, el("span", {}, visible(one.label).slice(0, 80)), el("span", { class: "count" }, one.devices.toLocaleString("en")))),
    shown.length < values.length ? el("button", { type: "button", class: "rest", onclick: (event) => {
      state.open.add(name);
      event.target.closest(".body").replaceChildren(...drawFacets(data, { state }));
    } }, `${values.length - shown.length} more`) : null);
  };
  const set = chosenFacets().length;
  return [el("details", { class: "facets", open: innerWidth > 1099 || state.isOpen, ontoggle: (event) => { state.isOpen = event.target.open; } },
    el("summary", {}, set ? `Narrow by (${set})` : "Narrow by"),
    el("div", {}, Object.entries(found).filter(([, values]) => values.length > 1 || values[0]?.isChosen).map(facet)))];
}

// The choices as words that can be taken back, also where the facets are folded away.
function chips() {
  const holder = el("span", { class: "chips" });
  const fill = () => holder.replaceChildren(...chosenFacets().map((name) => el("button", { type: "button", onclick: () => changeView({ [name]: "" }) },
    `${FACETS[name]}: ${visible(labels[name] || unknown(name, view().get(name))).slice(0, 60)}`, el("span", { "aria-hidden": "true" }, " ×"), el("span", { class: "hidden" }, ", remove"))),
  chosenFacets().length > 1 ? el("button", { type: "button", onclick: () => changeView(Object.fromEntries(Object.keys(FACETS).map((name) => [name, ""]))) }, "Clear all") : "");
  fill();
  return [holder, fill];
}

let fillChips = () => {};
document.addEventListener("facets", () => fillChips());

export function drawDevices(data, panel) {
  const { state, draw } = panel;
  if (!state.search) {
    state.search = el("input", { type: "search", class: "finder", "aria-label": "Find devices", placeholder: "Name, serial, MAC, address, tag", value: view().get("search") });
    state.search.addEventListener("input", debounced(() => changeView({ search: state.search.value.trim() }, { replace: true }), 250));
  }
  if (document.activeElement === state.search) setTimeout(() => state.search.focus()); // it is put in its place again
  else state.search.value = view().get("search") || "";
  const [holder, fill] = chips();
  fillChips = fill;
  const sort = view().get("sort") || draw.sort;
  const count = data.rows ? data.values.devices[0] : 0;
  panel.section?.querySelector("h2")?.replaceChildren(`${count.toLocaleString("en")} ${count === 1 ? "device" : "devices"}`);
  const parts = drawTable(data, {
    ...panel, isWhole: false, isOneLine: true, tools: [state.search, holder],
    sorted: { name: sort.replace("-", ""), descending: sort.startsWith("-") },
    onSort: (name) => changeView({ sort: sort === name ? `-${name}` : name }, { replace: true }),
  });
  if (!data.rows) parts.splice(1, parts.length, el("p", { class: "hint" }, panel.empty));
  return parts;
}
