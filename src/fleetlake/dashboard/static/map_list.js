// The list beside the map: find a device, go to it, tick it for its track. The counts of the states
// are the map's legend; a click on one hides that state here and on the map.
import { debounced, el } from "./dom.js";
import { ago, place, show } from "./format.js";
import { STATES, stateOf } from "./map_layers.js";
import { deviceName } from "./table.js";

const STEP = 200;
const FRESH_S = 1800;
const isNarrow = () => innerWidth <= 900;

const mark = (state) => el("span", { class: `mark ${STATES[state].shape}`, style: { background: STATES[state].colour }, "aria-hidden": "true" });

export class DeviceList {
  constructor({ picked, ticked, hid }) {
    Object.assign(this, { picked, ticked, hid });
    this.hidden = new Set();
    this.count = 0;
    this.told = el("p", { class: "note", role: "status" });
    this.finder = el("input", { type: "search", class: "finder", "aria-label": "Find a device on the map", placeholder: "Find a device, place, carrier" });
    this.finder.addEventListener("input", debounced(() => { this.count = 0; this.fill(); }, 120));
    this.rows = el("ul", { class: "devices" });
    this.more = el("p", { class: "more" });
    this.legend = el("div", { class: "states", role: "group", "aria-label": "States on the map: select one to hide it" });
    this.element = el("div", { class: "map-list" }, el("div", { class: "map-find" }, this.finder, this.told), el("div", { class: "map-rows" }, this.rows, this.more));
    this.rows.addEventListener("keydown", (event) => this.move(event));
    this.rows.addEventListener("focusin", ({ target }) => this.only(target.closest("li")));
  }

  // New devices: in the order of their state, worst first, and of their names.
  show(data) {
    this.data = data;
    const order = Object.keys(STATES);
    this.states = Array.from({ length: data.rows }, (_, i) => stateOf(data, i));
    this.names = Array.from({ length: data.rows }, (_, i) => deviceName(data, i));
    const byName = new Intl.Collator("en", { numeric: true }).compare;
    this.order = this.states.map((_, i) => i).sort((a, b) => order.indexOf(this.states[a]) - order.indexOf(this.states[b]) || byName(this.names[a], this.names[b]));
    this.texts = null;
    this.fill();
    this.drawLegend();
  }

  isHidden(row) {
    return this.hidden.has(this.states[row]);
  }

  found() {
    const wanted = this.finder.value.trim().toLowerCase();
    const shown = this.order.filter((i) => !this.isHidden(i));
    if (!wanted) return shown;
    const { values } = this.data;
    this.texts ??= this.states.map((state, i) => [this.names[i], values.router_id[i], STATES[state].label, values.carrier[i], place(values.latitude_deg[i], values.longitude_deg[i])].join(" ").toLowerCase());
    return shown.filter((i) => this.texts[i].includes(wanted));
  }

  fill() {
    const found = this.found();
    this.count ||= isNarrow() ? 12 : STEP;
    const kept = document.activeElement?.closest?.(".devices li")?.dataset.id;
    this.rows.replaceChildren(...found.slice(0, this.count).map((i) => this.row(i)));
    const again = kept && this.rows.querySelector(`[data-id="${kept}"] .pick`);
    this.only(again ? again.closest("li") : this.rows.firstElementChild);
    again?.focus({ preventScroll: true });
    this.more.replaceChildren();
    const rest = found.length - this.count;
    if (rest > 0) this.more.append(el("button", { type: "button", onclick: () => { this.count += STEP; this.fill(); } }, `Show ${Math.min(rest, STEP)} more of ${found.length}`));
    else if (!found.length) this.more.append(this.data.rows ? "No device on the map has that." : "No device has a known place.");
    this.paint();
  }

  row(i) {
    const id = String(this.data.values.router_id[i]);
    const name = this.names[i].length > 60 ? `${this.names[i].slice(0, 60)}…` : this.names[i];
    const box = el("input", { type: "checkbox", "aria-label": `Track of ${name}`, onchange: () => this.ticked(id, box.checked) });
    return el("li", { "data-id": id, "data-index": i },
      el("button", { type: "button", class: "pick", onclick: () => this.picked(id) }, el("span", { class: "sign" }), el("span", { class: "name" }, name), el("span", { class: "said" })),
      el("label", { class: "tick", title: "Draw its track of the day" }, box, el("span", { class: "swatch" })));
  }

  // What changes without a new list: places at a moment, and which devices have a track.
  update({ then, colours }) {
    this.then = then;
    this.colours = colours;
    this.paint();
    this.drawLegend();
  }

  paint() {
    const at = new Map(this.then ? Array.from({ length: this.then.rows }, (_, i) => [String(this.then.values.router_id[i]), i]) : []);
    for (const item of this.rows.children) {
      const i = Number(item.dataset.index);
      const moved = at.get(item.dataset.id);
      const state = this.then ? "then" : this.states[i];
      const { values } = this.then ? this.then : this.data;
      const row = this.then ? moved : i;
      const isThere = row !== undefined;
      item.classList.toggle("absent", !isThere);
      item.querySelector(".sign").replaceChildren(mark(state));
      const isFresh = this.then || values.age_s[row] < FRESH_S; // the speed of long ago says nothing
      const speed = isThere && isFresh && values.speed_kmh[row] >= 3 ? show("speed", values.speed_kmh[row]) : null;
      item.querySelector(".said").textContent = isThere
        ? [this.then || state === "online" ? null : STATES[state].label, place(values.latitude_deg[row], values.longitude_deg[row]), speed, this.then ? null : ago(values.located_at[row])].filter(Boolean).join(" · ")
        : "not located in that hour";
      const colour = this.colours?.get(item.dataset.id);
      item.querySelector("input").checked = Boolean(colour);
      item.querySelector(".swatch").style.background = colour || "";
      item.classList.toggle("chosen", Boolean(colour));
    }
  }

  // The row of a device is seen, as its pop-up is opened.
  mark(id) {
    for (const item of this.rows.children) {
      const isIt = item.dataset.id === id;
      item.classList.toggle("current", isIt);
      if (isIt && !isNarrow()) item.scrollIntoView({ block: "nearest" });
    }
  }

  drawLegend() {
    if (this.then) {
      this.legend.replaceChildren(el("span", { class: "state" }, mark("then"), el("span", {}, STATES.then.label), el("b", {}, this.then.rows.toLocaleString("en"))));
      return;
    }
    const counts = Object.fromEntries(Object.keys(STATES).map((state) => [state, 0]));
    for (const state of this.states) counts[state] += 1;
    const shown = ["online", "backup", "offline", "other"].filter((state) => counts[state] || state !== "other");
    const focused = document.activeElement?.dataset?.state;
    this.legend.replaceChildren(...shown.map((state) => {
      const isOn = !this.hidden.has(state);
      return el("button", { type: "button", class: "state", "data-state": state, "aria-pressed": String(isOn), title: isOn ? "Hide them" : "Show them", onclick: () => this.toggle(state) }, mark(state), el("span", {}, STATES[state].label), el("b", {}, counts[state].toLocaleString("en")));
    }));
    if (focused) this.legend.querySelector(`[data-state="${focused}"]`)?.focus();
  }

  toggle(state) {
    if (!this.hidden.delete(state)) this.hidden.add(state);
    this.count = 0;
    this.fill();
    this.drawLegend();
    this.hid();
  }

  // One stop of the Tab key for the list; arrows, or j and k, lead through it.
  only(item) {
    for (const one of this.rows.querySelectorAll(".pick, input")) one.tabIndex = item?.contains(one) ? 0 : -1;
  }

  move(event) {
    const item = event.target.closest("li");
    const next = { ArrowDown: item?.nextElementSibling, j: item?.nextElementSibling, ArrowUp: item?.previousElementSibling, k: item?.previousElementSibling }[event.key];
    if (!next || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation(); // of the page, they lead through its tables
    next.querySelector(event.target.type === "checkbox" ? "input" : ".pick").focus();
  }
}
