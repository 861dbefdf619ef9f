// The page of tables: one published table, chosen, searched and sorted by the server.
import { changeView } from "./address.js";
import { el } from "./dom.js";
import { show } from "./format.js";
import { drawTable } from "./table.js";

function choice(label, name, options, chosen) {
  const select = el("select", { onchange: () => changeView({ ...(name === "table" ? { search: "", sort: "" } : {}), [name]: select.value }) },
    options.map(([value, text]) => el("option", { value, selected: value === chosen }, text)));
  return el("label", {}, label, " ", select);
}

export function drawTables(data, { given }) {
  const chosen = given.get("table") || "";
  const { table_name: names, about, rows } = data.values;
  const place = names.indexOf(chosen);
  return [
    choice("Table", "table", [["", "choose one"], ...names.map((name, i) => [name, `${name} (${show("number", rows[i])} rows)`])], chosen),
    place < 0 ? null : el("p", { class: "about" }, about[place]),
  ];
}

export function drawBrowse(data, panel) {
  const { given } = panel;
  const search = given.get("search") || "";
  const sort = given.get("sort") || "";
  const field = el("input", { type: "search", value: search, placeholder: "any text", onchange: () => changeView({ search: field.value.trim() }) });
  const orders = data.columns.flatMap(({ name, label }) => [[name, `${label} (${name}), lowest first`], [`-${name}`, `${label} (${name}), highest first`]]);
  const isWhole = !data.is_cut && !search && !sort;
  return [
    isWhole ? null : el("p", { class: "browse" }, el("label", {}, "Find in the whole table ", field), " ", choice("Order", "sort", [["", "as published"], ...orders], sort)),
    ...drawTable(data, { ...panel, path: `${panel.path} ${given.get("table")}`, title: given.get("table"), isWhole }),
  ];
}
