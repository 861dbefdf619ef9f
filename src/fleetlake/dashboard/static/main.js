// Fills the panels of a page, and again when the view or the published snapshot changes.
import { form, linkTo, query } from "./address.js";
import { drawChanges } from "./changes.js";
import { drawBars, drawCalendar, drawHeat, drawLanes } from "./chart.js";
import { drawDevices, drawFacets } from "./devices.js";
import { debounced, el } from "./dom.js";
import { inWords, refreshChoices, startFilters } from "./filters.js";
import { ago, instant, preference, setPreference } from "./format.js";
import { drawInbox } from "./inbox.js";
import { startKeys } from "./keys.js";
import { startKiosk } from "./kiosk.js";
import { startMenus } from "./menus.js";
import { deviceName, drawCards, drawFacts, drawTable } from "./table.js";
import { drawBrowse, drawTables } from "./tables.js";
import { drawTrends } from "./trend.js";

const DRAWN = {
  table: drawTable,
  changes: drawChanges,
  cards: drawCards,
  facts: drawFacts,
  facets: drawFacets,
  devices: drawDevices,
  inbox: drawInbox,
  trends: drawTrends,
  bars: drawBars,
  heat: drawHeat,
  calendar: drawCalendar,
  lanes: drawLanes,
  tables: drawTables,
  browse: drawBrowse,
  series: async (...given) => (await import("./series.js")).drawSeries(...given),
  map: async (...given) => (await import("./map.js")).drawMap(...given),
};

const OLD = 2 * 3600e3;
const TITLE = document.querySelector("h1").textContent;
let status = null;
let drawn = null; // what the panels were read from
const shownBy = (one) => one && `${one.snapshot} ${one.steps}`;

function panelsOfPage() {
  return [...document.querySelectorAll("[data-panel]")].map((section) => ({
    ...JSON.parse(section.dataset.panel),
    section,
    title: section.querySelector("h2").textContent,
    body: section.querySelector(".body"),
    state: {},
    shown: "",
    request: null,
  }));
}

const panels = panelsOfPage();

function say(panel, className, ...what) {
  panel.shown = "";
  panel.body.replaceChildren(el("p", { class: className }, what));
}

async function read(panel, given) {
  panel.request?.abort();
  panel.request = new AbortController();
  const answer = await fetch(`${panel.path}?${given}`, { signal: panel.request.signal });
  const document = await answer.json().catch((error) => {
    if (answer.ok) throw error;
    return { what: `The dashboard’s server failed (status ${answer.status}).`, remedy: "What it printed says why." };
  });
  if (!answer.ok) throw Object.assign(new Error(document.what), { ...document, status: answer.status });
  return document;
}

async function load(panel, { force = false } = {}) {
  const given = query();
  for (const link of panel.section.querySelectorAll(".export")) {
    const more = link.dataset.proof ? `${given.size ? "&" : ""}proof=${link.dataset.proof}` : "";
    link.href = `${panel.path}.${link.dataset.format}?${given}${more}`;
  }
  const missing = panel.needs.filter((name) => !given.get(name));
  if (missing.length) {
    panel.request?.abort();
    panel.body.setAttribute("aria-busy", "false");
    panel.section.classList.add("quiet");
    say(panel, "hint", needed(missing));
    title(panel);
    return;
  }
  panel.body.setAttribute("aria-busy", "true");
  try {
    const data = await read(panel, given);
    const text = JSON.stringify([data.columns.length, data.values, data.ignored, data.proof, given.toString()]);
    if (force || text !== panel.shown) await draw(panel, data, given, text);
  } catch (error) {
    if (error.name === "AbortError") return;
    if (error.what) say(panel, error.status === 404 ? "hint" : "problem", error.what, error.remedy ? ` ${error.remedy}` : "");
    else say(panel, "problem", "No answer from the dashboard’s server. Is `fleetlake dashboard` still running? ", retry(panel));
  }
  panel.body.setAttribute("aria-busy", "false");
}

function needed(names) {
  if (names.includes("table")) return "Choose a table above.";
  if (names.includes("router")) return "Choose a router above, or select a device’s name on any page.";
  return names.includes("day") ? "Choose a day on the map above." : "Move the slider of the map above.";
}

const retry = (panel) => el("button", { type: "button", onclick: () => load(panel) }, "Try again");

async function draw(panel, data, given, text) {
  const ignored = data.ignored.map((name) => (name === "from" || name === "to" ? "time" : name));
  const offered = [...new Set(ignored)].filter((name) => form()?.elements[name === "time" ? "last" : name] && !(name !== "carrier" && given.get("router") && data.applied.includes("router") && name !== "time"));
  const note = offered.length && given.size ? el("p", { class: "note" }, `Not filtered by ${offered.join(" or ")}.`) : null;
  let content;
  const isEmpty = !data.rows && !["map", "devices"].includes(panel.kind);
  panel.section.classList.toggle("quiet", isEmpty);
  if (isEmpty) content = [el("p", { class: "hint" }, panel.empty)];
  else {
    const width = panel.body.clientWidth;
    content = await DRAWN[panel.kind](data, { ...panel, width, given, read: (path, more) => read({ path }, query(more)), load: loadNamed });
  }
  panel.shown = text;
  title(panel, data);
  const parts = [note, content].flat().filter(Boolean);
  const isSame = parts.length === panel.body.childNodes.length && parts.every((one, i) => one === panel.body.childNodes[i]);
  if (!isSame) panel.body.replaceChildren(...parts); // a map and its list keep their focus
  proof(panel, data.proof);
  origins(panel, data);
}

// The page of one device has its name, and its own again without one.
function title(panel, data) {
  if (panel.section.id !== "identity") return;
  const name = data?.rows ? deviceName(data, 0).slice(0, 80) : TITLE;
  document.querySelector("h1").textContent = name;
  document.title = `${name} · fleetlake`;
}

// Until when a panel is complete; one that is not says so beside its title.
function proof(panel, { is_complete: isComplete = true, in_words: words = [] } = {}) {
  const head = panel.section.querySelector(".head");
  head.querySelector(".unproven")?.remove();
  head.querySelector("h2").title = words.join("\n");
  if (!isComplete) head.querySelector("h2").after(el("span", { class: "unproven", title: words.join("\n") }, "▲", el("span", {}, " not complete")));
}

// Where each number comes from, and since when its mart has rows.
function origins(panel, data) {
  const rows = data.columns.map((column) => el("tr", {}, el("th", { scope: "row" }, column.label), el("td", {}, el("code", {}, column.origin)), el("td", {}, column.meaning)));
  const since = data.since === null ? "" : `The mart’s rows begin ${instant(data.since)}. `;
  panel.section.querySelector(".origin").replaceChildren(
    el("p", {}, `${since}Snapshot ${data.snapshot}; newest event ${instant(data.as_of)}.`),
    ...(data.proof?.in_words ?? []).map((line) => el("p", {}, line)),
    el("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": "Origin of each column" }, el("table", {}, el("tbody", {}, rows))),
  );
}

function loadNamed(names) {
  for (const panel of panels) if (names.includes(panel.section.id)) load(panel);
}

function loadAll(options = {}) {
  if (document.documentElement.dataset.page === "device" && !query().get("router")) {
    location.replace(linkTo("/devices", {})); // a page of one device
    return;
  }
  drawn = shownBy(status);
  describe();
  setTimeout(describe, 500); // the router's name arrives from the server
  return Promise.all(panels.map((panel) => load(panel, options)));
}

function describe() {
  document.querySelector("#shown").textContent = inWords();
}

// The head says how old the data is; its title and the View menu say the rest.
function showAge() {
  if (!status) return;
  const isOld = Date.now() - status.as_of > OLD;
  const stale = status.stale?.length ? `Could not be built again: ${status.stale.join(", ")}.` : "";
  const age = document.querySelector("#age");
  age.className = isOld || stale ? "old" : "";
  age.replaceChildren(isOld || stale ? "▲ " : "", ...(stale ? ["Some marts are old"] : [el("span", {}, "Data "), ago(status.as_of)]));
  const whole = `Data until ${instant(status.as_of)} (${ago(status.as_of)}), published ${ago(status.published_at)}. ${status.is_coarse ? "Coarse: places are rounded, names left out. " : ""}${stale}`;
  age.title = whole;
  document.querySelector("#data-age").textContent = whole;
}

async function readStatus() {
  const answer = await fetch("/api/status").catch(() => null);
  const document_ = await answer?.json().catch(() => null);
  if (!answer?.ok) {
    document.querySelector("#age").textContent = document_ ? `${document_.what} ${document_.remedy}` : "No connection to the dashboard’s server; trying again.";
    return;
  }
  status = document_;
  document.documentElement.dataset.writable = String(status.is_writable);
  showAge();
}

// A browser opens six connections to a server: a hidden page gives its one back.
let events = null;

function follow() {
  if (document.hidden || events) return;
  events = new EventSource("/events");
  events.addEventListener("snapshot", async () => {
    await readStatus();
    if (status && shownBy(status) !== drawn) { // a hidden page was told nothing
      refreshChoices();
      loadAll();
    }
  });
  events.addEventListener("findings", async () => {
    await readStatus();
    loadAll();
  });
  events.addEventListener("error", () => {
    document.querySelector("#age").textContent = "No connection to the dashboard’s server; trying again.";
  });
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    events?.close();
    events = null;
  } else follow();
});

function startPreferences() {
  for (const name of ["zone", "units", "theme"]) {
    const select = document.getElementById(name);
    select.value = preference(name);
    select.addEventListener("change", () => {
      setPreference(name, select.value);
      if (name === "theme") {
        if (select.value === "auto") delete document.documentElement.dataset.theme;
        else document.documentElement.dataset.theme = select.value;
        if (document.querySelector(".map")) location.reload(); // its colours are set once
      }
      document.dispatchEvent(new CustomEvent("view", { detail: [] }));
      showAge();
      loadAll({ force: true });
    });
  }
}

document.addEventListener("view", (event) => {
  const isMapOnly = event.detail.length && event.detail.every((name) => ["day", "at", "vehicles"].includes(name));
  if (!isMapOnly && event.detail.length) loadAll();
});
addEventListener("popstate", () => loadAll());
addEventListener("resize", debounced(() => {
  for (const panel of panels) if (["lanes", "series"].includes(panel.kind)) load(panel, { force: true });
}, 250));

startMenus();
startKeys();
startKiosk();
startPreferences();
await readStatus();
startFilters().then(describe);
loadAll()?.then(() => document.getElementById(location.hash.slice(1))?.scrollIntoView()); // panels grew
follow();
setInterval(showAge, 60000);
