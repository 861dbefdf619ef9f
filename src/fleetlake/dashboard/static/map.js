// The map: devices now or at a moment, tracks of a day, coverage, over outlines or the user's own
// tiles; beside it the list of its devices. It always shows what the slider says.
import { changeView, linkTo, view } from "./address.js";
import { isDark, topologies } from "./basemap.js";
import { debounced, el } from "./dom.js";
import { duration, instant, place, show } from "./format.js";
import { COLOURS, CLICKED, EMPTY, SIGNAL, SPEED, STATES, boxOf, createMap, densestRegion, hours, points, segments, stateOf, stepped } from "./map_layers.js";
import { DeviceList } from "./map_list.js";
import { deviceLink, deviceName, drawTable } from "./table.js";
import { readTiles } from "./tiles.js";

const DAY = 86400e3;
const HOUR = 3600e3;
const MINUTE = 60e3;
const SPEEDS = [1, 10, 60, 300, 1200];
const ASK_MS = 800; // between two questions to the server while a replay runs
const FADED = [["clusters", "circle-opacity", 0.35, 0.92], ["clusters", "circle-stroke-opacity", 0.4, 1], ["counts", "text-opacity", 0.6, 1], ["devices", "icon-opacity", 0.5, 1], ["devices", "text-opacity", 0.6, 1]]; // beside tracks
const HOLD_MS = 15 * MINUTE; // a vehicle without a fix for longer does not glide to its next one

let library;
let shown = null;

const dayOf = (milliseconds) => new Date(milliseconds).toISOString().slice(0, 10);
const isoOf = (milliseconds) => `${new Date(milliseconds).toISOString().slice(0, 19)}Z`;
const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

function facts(data, row, names) {
  return el("dl", { class: "facts" }, names.map((name) => {
    const column = data.columns.find((one) => one.name === name);
    return column && data.values[name][row] !== null ? el("div", {}, el("dt", {}, column.label), el("dd", {}, show(column.kind, data.values[name][row]))) : null;
  }));
}

class FleetMap {
  constructor(panel) {
    this.panel = panel;
    this.holder = el("div", { class: "map", role: "region", "aria-label": "Map of devices; the list beside it says the same in words" });
    this.list = new DeviceList({
      picked: (id) => this.pick(id),
      ticked: (id, isOn) => this.tick(id, isOn),
      hid: () => { this.drawDevices(); this.drawOutline(); },
    });
    this.wantsCoverage = false;
    this.colourChoice = "";
    this.controls = this.createControls();
    this.scale = el("div", { class: "map-scale" });
    this.problem = el("p", { class: "note problem-line", role: "status" });
    this.stage = el("div", { class: "map-stage" }, el("div", { class: "map-place" }, this.holder, this.list.legend, this.scale), this.list.element);
    this.table = el("details", { class: "as-table" }, el("summary", {}, "Devices on the map, as a table"));
    this.table.addEventListener("toggle", () => this.drawTable());
    this.stage.addEventListener("keydown", (event) => { if (event.key === "Escape") this.closePopup(); });
    addEventListener("resize", debounced(() => { this.resize(); this.drawOutline(); }, 100));
    this.parts = [this.controls, this.problem, this.stage, this.table];
  }

  // Controls

  createControls() {
    this.day = el("input", { type: "date", id: "map-day" });
    this.day.addEventListener("change", () => this.changeDay());
    this.slider = el("input", { type: "range", id: "map-at", min: 0, max: 86340, step: 60, value: 0 });
    const move = debounced(() => { if (!this.timer) this.go(); }, 120);
    this.slider.addEventListener("input", () => {
      this.stop();
      this.time = this.dayStart() + this.slider.valueAsNumber * 1000;
      this.sayMoment();
      move();
    });
    this.clock = el("output", { for: "map-at" }, "now");
    this.play = el("button", { type: "button" }, "Play");
    this.play.addEventListener("click", () => (this.timer ? this.stop() : this.start()));
    this.pace = el("select", { id: "map-pace" }, SPEEDS.map((speed) => el("option", { value: speed, selected: speed === 300 }, `${speed}×`)));
    this.now = el("button", { type: "button" }, "Now");
    this.now.addEventListener("click", () => { this.stop(); changeView({ day: this.today, at: "" }); });
    this.colour = el("select", { id: "map-colour" }, [["speed_kmh", "speed"], ["rsrp_dbm", "signal"], ["device", "device"]].map(([value, label]) => el("option", { value }, label)));
    this.colour.addEventListener("change", () => { this.colourChoice = this.colour.value; this.drawTracks(); });
    this.by = el("span", { class: "by", hidden: true }, el("label", { for: "map-colour" }, "Tracks by"), this.colour);
    const coverage = el("input", { type: "checkbox", id: "layer-coverage" });
    coverage.addEventListener("change", () => { this.wantsCoverage = coverage.checked; this.loadCoverage(); });
    return el("div", { class: "map-controls", role: "group", "aria-label": "What the map shows" },
      el("span", {}, el("label", { for: "map-day" }, "Day (UTC)"), this.day),
      el("span", { class: "slide" }, el("label", { for: "map-at" }, "Time"), this.slider, this.clock),
      el("span", { class: "replay" }, this.play, el("label", { for: "map-pace", class: "hidden" }, "Speed of the replay"), this.pace, this.now),
      this.by,
      el("span", {}, coverage, el("label", { for: "layer-coverage" }, "Coverage")),
      el("a", { href: "#coverage", class: "below" }, "Tables"));
  }

  dayStart() {
    return Date.parse(`${this.day.value || this.today}T00:00:00Z`);
  }

  isNow() {
    return !view().get("at");
  }

  // The newest moment of the chosen day: of today, the newest of the data.
  lastMoment() {
    const end = this.dayStart() + DAY - MINUTE;
    return this.day.value === this.today ? Math.min(end, Math.floor(this.data.as_of / MINUTE) * MINUTE) : end;
  }

  changeDay() {
    this.stop();
    const day = this.day.value || this.today;
    const at = view().get("at");
    const time = at ? `${day}${at.slice(10)}` : `${day}T23:59:00Z`;
    changeView({ day, at: day === this.today && (!at || Date.parse(time) >= this.data.as_of) ? "" : time });
  }

  // The slider of today's newest moment is "now".
  go() {
    const isNow = this.day.value === this.today && this.time >= this.lastMoment();
    changeView({ at: isNow ? "" : isoOf(this.time) }, { replace: true });
  }

  sayMoment() {
    const isNow = this.isNow() && !this.timer && this.time >= this.lastMoment();
    this.clock.textContent = isNow ? `now (${instant(this.data.as_of).slice(11)})` : instant(this.time);
    this.slider.max = Math.round((this.lastMoment() - this.dayStart()) / 1000);
    this.slider.value = Math.round((this.time - this.dayStart()) / 1000);
    this.slider.setAttribute("aria-valuetext", this.clock.textContent);
  }

  start() {
    if (this.time >= this.lastMoment()) this.time = this.firstMove();
    this.play.textContent = "Stop";
    this.ticked = performance.now();
    this.asked = 0;
    this.timer = setInterval(() => this.step(), 100);
    this.step();
  }

  stop() {
    if (!this.timer) return;
    clearInterval(this.timer);
    this.timer = null;
    this.play.textContent = "Play";
    this.go();
  }

  step() {
    const now = performance.now();
    this.time = Math.min(this.lastMoment(), this.time + (now - this.ticked) * Number(this.pace.value));
    this.ticked = now;
    this.sayMoment();
    this.drawMoving();
    if (this.time >= this.lastMoment()) this.stop();
    else if (now - this.asked > ASK_MS) {
      this.asked = now;
      changeView({ at: isoOf(this.time) }, { replace: true });
    }
  }

  // What is shown

  // The address names a day, and of a past day a moment: without one, its end.
  settleAddress(data) {
    const given = view();
    const before = this.today;
    this.today = dayOf(data.as_of);
    const at = given.get("at");
    const day = at ? at.slice(0, 10) : given.get("day");
    const isToday = !day || day === this.today || (!at && day === before);
    const changes = isToday ? { day: this.today } : { day, at: at || `${day}T23:59:00Z` };
    if (Object.entries(changes).every(([name, value]) => given.get(name) === value)) return;
    changeView(changes, { replace: true });
  }

  async show(data) {
    this.data = data;
    this.list.show(data);
    this.settleAddress(data);
    this.drawTable();
    this.resize();
    if (!this.map && !this.isFlat) await this.open();
    if (this.isFlat) this.drawOutline();
    await this.update();
    const filters = ["account", "group", "router", "carrier"].map((name) => view().get(name)).join("|");
    if (this.fittedFor !== filters && !this.track?.rows) this.fit(densestRegion(this.places()));
    this.fittedFor = filters;
    await this.drawn; // for the first time
  }

  async open() {
    try {
      library ??= await import("./vendor/maplibre-gl.mjs");
      if (!document.querySelector("link[href*=maplibre]")) {
        const sheet = el("link", { rel: "stylesheet", href: "/static/vendor/maplibre-gl.css" });
        await new Promise((resolve) => { sheet.onload = resolve; sheet.onerror = resolve; document.head.append(sheet); });
      }
      const held = await readTiles().catch((error) => this.warn(error.message));
      this.closeZoom = held ? 13 : 10; // the outlines alone show nothing nearer than a county
      const map = await createMap(library, this.holder, held, () => this.fit(this.places()));
      map.on("error", (event) => { if (event.sourceId === "tiles") this.warn(`The map tiles cannot be read (${event.error.message}). The outlines stay.`); });
      map.on("click", (event) => this.click(event));
      map.on("moveend", debounced(() => { this.sayBounds(); if (this.wantsCoverage) this.loadCoverage(); if (this.track?.rows && Math.abs(map.getZoom() - this.trackZoom) > 1) this.loadTracks(); }, 200));
      this.map = map;
      this.drawn = map.loaded() ? null : new Promise((resolve) => map.once("load", resolve));
    } catch (error) {
      this.isFlat = true;
      const why = /webgl/i.test(error.message) ? "it has no WebGL" : String(error.message).slice(0, 120);
      this.warn(`This browser cannot draw the map (${why}): this is a picture of it, without tracks.`);
      this.outlines = await topologies();
    }
  }

  // Says why the user's own tiles are not drawn; the map works without them.
  warn(what) {
    this.problem.textContent = what;
    this.resize();
    return null;
  }

  // The map takes the window below what is above it.
  resize() {
    const top = this.stage.getBoundingClientRect().top + scrollY;
    if (this.stage.isConnected) this.stage.style.setProperty("--map-height", `${innerHeight - top}px`);
  }

  // Where the map is, for who reads the page by a program.
  sayBounds() {
    const [[west, south], [east, north]] = this.map.getBounds().toArray();
    this.holder.dataset.bounds = [west, south, east, north].map((degree) => degree.toFixed(3)).join(" ");
  }

  async drawOutline() {
    if (!this.isFlat || !this.outlines) return;
    const { drawOutlineMap } = await import("./outline_map.js");
    const kept = Array.from({ length: this.data.rows }, (_, i) => i).filter((i) => !this.list.isHidden(i));
    const values = Object.fromEntries(Object.entries(this.data.values).map(([name, column]) => [name, kept.map((i) => column[i])]));
    const [picture] = kept.length ? drawOutlineMap({ ...this.data, values, rows: kept.length }, { width: this.holder.clientWidth - 2, outlines: this.outlines }) : [""];
    this.holder.replaceChildren(picture);
  }

  drawTable() {
    if (!this.table.open) return;
    this.table.replaceChildren(this.table.firstChild, ...drawTable(this.data, { title: "Devices on the map", state: (this.tableState ??= {}) }));
  }

  async update() {
    this.day.value = view().get("day") || this.today;
    this.now.disabled = this.isNow();
    if (!this.timer) {
      const at = Date.parse(view().get("at") || "");
      this.time = Number.isNaN(at) ? this.lastMoment() : at;
      this.sayMoment();
    }
    await Promise.all([this.loadDevices(), this.loadTracks({ again: false })]);
  }

  chosen() {
    const given = view();
    return [...new Set([given.get("router"), ...(given.get("vehicles") || "").split(",")].filter(Boolean))].slice(0, COLOURS.length);
  }

  tick(id, isOn) {
    const kept = this.chosen().filter((one) => one !== id);
    if (isOn && kept.length >= COLOURS.length) {
      this.list.told.textContent = `At most ${COLOURS.length} tracks at once.`;
      this.list.paint();
      return;
    }
    const changes = { vehicles: [...kept, ...(isOn ? [id] : [])].filter((one) => one !== view().get("router")).join(",") };
    if (!isOn && id === view().get("router")) changes.router = "";
    changeView(changes);
  }

  // Devices

  async loadDevices() {
    const at = view().get("at");
    if (at) {
      const then = await this.panel.read("/api/map/replay").catch((error) => { this.list.told.textContent = error.message; return null; });
      if (!then || view().get("at") !== at) return;
      this.then = then;
    } else this.then = null;
    if (!this.timer) this.closePopup();
    this.list.told.textContent = this.then
      ? `Located in the hour before ${instant(Date.parse(at)).slice(11)}: ${this.then.rows}.`
      : `Devices located: ${this.data.rows.toLocaleString("en")}.${this.data.is_cut ? " There are more: narrow the filters." : ""}`;
    this.drawDevices();
  }

  drawDevices() {
    const { then, data } = this;
    const chosen = this.drawMoving();
    const isDrawn = (one, i) => chosen.has(String(one.values.router_id[i]));
    const name = (one, i) => deviceName(one, i).slice(0, 40);
    this.map?.getSource("devices").setData(then
      ? points(then, (i) => (isDrawn(then, i) ? null : { state: "then", name: name(then, i) }))
      : points(data, (i) => (this.list.isHidden(i) || isDrawn(data, i) ? null : { state: stateOf(data, i), name: name(data, i) })));
    for (const [layer, name, dim, usual] of FADED) this.map?.setPaintProperty(layer, name, this.track?.rows ? dim : usual);
    this.list.update({ then, colours: this.colours() });
  }

  places() {
    const { values, rows } = this.data;
    const found = [];
    for (let i = 0; i < rows; i += 1) if (values.latitude_deg[i] !== null && !this.list.isHidden(i)) found.push([values.longitude_deg[i], values.latitude_deg[i]]);
    return found;
  }

  fit(places, { animate = false } = {}) {
    if (!this.map || !places.length) return;
    this.map.fitBounds(boxOf(places), { padding: { top: 72, right: 56, bottom: 48, left: 40 }, maxZoom: 13, animate });
    this.sayBounds();
  }

  // Tracks

  colours() {
    return new Map(this.chosen().map((id, n) => [id, COLOURS[n]]));
  }

  async loadTracks({ again = true } = {}) {
    if (!this.map) return;
    const key = `${this.chosen()} ${this.day.value}`;
    if (!again && key === this.trackKey && this.trackOf === this.data) return;
    [this.trackKey, this.trackOf, this.trackZoom] = [key, this.data, this.map.getZoom()];
    const zoom = this.fittedTo === key ? Math.max(0, this.trackZoom - 1) : 11; // its box is not known yet
    const given = { day: this.day.value, zoom };
    const [track, stops] = this.chosen().length ? await Promise.all([this.panel.read("/api/map/track", given), this.panel.read("/api/map/stops", { day: this.day.value })]).catch(() => [null, null]) : [null, null];
    if (this.trackKey !== key) return;
    [this.track, this.stopRows] = [track, stops];
    this.drawTracks();
    if (track?.rows && this.fittedTo !== key) {
      this.fittedTo = key;
      this.fit(Array.from({ length: track.rows }, (_, i) => [track.values.longitude_deg[i], track.values.latitude_deg[i]]), { animate: Boolean(this.fittedFor) });
    }
  }

  drawTracks() {
    const { track, stopRows: stops } = this;
    const colours = this.colours();
    const by = this.colourChoice || (colours.size > 1 ? "device" : "speed_kmh");
    this.colour.value = by;
    this.by.hidden = !track?.rows;
    const own = (data, i) => colours.get(String(data.values.router_id[i])) || COLOURS[0];
    this.map.getSource("track").setData(track ? segments(track, (i) => (by === "device" ? { colour: own(track, i) } : { value: by === "speed_kmh" ? this.speedAt(i) : track.values[by][i] })) : EMPTY);
    this.map.setPaintProperty("track", "line-color", by === "device" ? ["get", "colour"] : stepped(by === "speed_kmh" ? SPEED : SIGNAL));
    this.map.getSource("hours").setData(track ? hours(track, (i) => instant(track.values.fixed_at[i]).slice(11)) : EMPTY);
    this.map.getSource("stops").setData(stops ? points(stops, (i) => ({ label: stops.values.dwell_s[i] === null ? "" : duration(stops.values.dwell_s[i]), colour: by === "device" ? own(stops, i) : "#17212b" })) : EMPTY);
    this.drawDevices();
    this.drawScale(by);
  }

  // The speed of a fix; of one without, that of the way from the fix before it.
  speedAt(i) {
    const { router_id: ids, fixed_at: times, latitude_deg: latitudes, longitude_deg: longitudes, speed_kmh: speeds } = this.track.values;
    if (speeds[i] !== null || !i || ids[i] !== ids[i - 1] || times[i] - times[i - 1] > HOLD_MS) return speeds[i];
    const east = (longitudes[i] - longitudes[i - 1]) * Math.cos((latitudes[i] * Math.PI) / 180);
    return (Math.hypot(east, latitudes[i] - latitudes[i - 1]) * 111.2) / Math.max((times[i] - times[i - 1]) / HOUR, 1e-4);
  }

  // Where a replay begins: the first departure of the chosen vehicles, or else their first fix.
  firstMove() {
    const from = this.dayStart();
    const left = (this.stopRows?.values.left_at ?? []).filter((at) => at > from && at < from + DAY).map((at) => at - 2 * MINUTE);
    const fixes = left.length || !this.track?.rows ? [] : this.track.values.fixed_at;
    const first = [...left, ...fixes].reduce((least, at) => Math.min(least, at), Infinity);
    return Number.isFinite(first) ? Math.max(from, first) : from;
  }

  // The chosen devices, in their colours: where they are now, or at the moment of the slider, between
  // two fixes on the way from one to the other. Returns which they are.
  drawMoving() {
    const colours = this.colours();
    const features = [];
    const found = new Set();
    const add = (data, row, at, source) => {
      const id = String(data.values.router_id[row]);
      const speed = source === "track" ? this.speedAt(row) : data.values.speed_kmh[row];
      found.add(id);
      features.push({ type: "Feature", properties: { row, source, colour: colours.get(id), name: `${deviceName(data, row).slice(0, 40)}${speed === null ? "" : `\n${show("speed", speed)}`}` }, geometry: { type: "Point", coordinates: at } });
    };
    if (!colours.size) {
      // none is chosen
    } else if (!this.timer && this.isNow()) {
      const { router_id: ids, latitude_deg: latitudes, longitude_deg: longitudes } = this.data.values;
      ids.forEach((id, i) => { if (colours.has(String(id)) && latitudes[i] !== null) add(this.data, i, [longitudes[i], latitudes[i]], "data"); });
    } else if (this.track?.rows) {
      const { router_id: ids, fixed_at: times, latitude_deg: latitudes, longitude_deg: longitudes } = this.track.values;
      for (let i = 0; i < this.track.rows; i += 1) {
        const isLast = ids[i + 1] !== ids[i];
        if (!colours.has(String(ids[i])) || times[i] > this.time || (!isLast && times[i + 1] <= this.time) || (isLast && this.time - times[i] > HOUR)) continue;
        const part = isLast || times[i + 1] - times[i] > HOLD_MS || Math.abs(longitudes[i + 1] - longitudes[i]) > 180 ? 0 : (this.time - times[i]) / (times[i + 1] - times[i]);
        const between = (values) => values[i] + part * ((values[i + 1] ?? 0) - values[i]);
        add(this.track, i, [between(longitudes), between(latitudes)], "track");
      }
    }
    this.map?.getSource("moving").setData({ type: "FeatureCollection", features });
    return found;
  }

  async loadCoverage() {
    if (!this.map) return;
    const [[west, south], [east, north]] = this.map.getBounds().toArray();
    this.cells = this.wantsCoverage ? await this.panel.read("/api/map/coverage", { west, south, east, north }).catch(() => null) : null;
    this.map.getSource("coverage").setData(this.cells ? points(this.cells, (i) => ({ value: this.cells.values.mean_rsrp_dbm[i] }), "cell_latitude_deg", "cell_longitude_deg") : EMPTY);
    this.drawScale(this.colour.value);
  }

  drawScale(by) {
    const steps = (values, kind, name) => el("p", {}, el("b", {}, name), values.map(([colour, from], i) => el("span", { class: "step" }, el("span", { class: "swatch", style: { background: colour } }), i ? show(kind, from).replace(/ .*/, "") : `< ${show(kind, values[1][1]).replace(/ .*/, "")}`)), ` ${show(kind, 1).replace(/^\S+ /, "")}`);
    const tracks = this.track?.rows ? (by === "device" ? null : by === "speed_kmh" ? steps(SPEED, "speed", "Track") : steps(SIGNAL, "dbm", "Track")) : null;
    this.scale.replaceChildren(...[
      tracks,
      this.cells ? steps(SIGNAL, "dbm", "Coverage") : null,
    ].filter(Boolean));
  }

  // Pop-ups: one at a time

  closePopup() {
    this.popup?.remove();
    this.popup = null;
  }

  tell(at, ...content) {
    this.closePopup();
    this.popup = new library.Popup({ closeButton: true, maxWidth: "290px", offset: 12, focusAfterOpen: false }).setLngLat(at).setDOMContent(el("div", { class: "popup" }, ...content)).addTo(this.map);
    this.popup.getElement().querySelector(".maplibregl-popup-close-button").ariaLabel = "Close";
  }

  async click(event) {
    const { x, y } = event.point;
    const found = this.map.queryRenderedFeatures([[x - 3, y - 3], [x + 3, y + 3]], { layers: CLICKED });
    const first = CLICKED.map((layer) => found.find((one) => one.layer.id === layer)).find(Boolean);
    if (!first) return;
    const { row } = first.properties;
    if (first.layer.id === "clusters") {
      const zoom = await this.map.getSource("devices").getClusterExpansionZoom(first.properties.cluster_id);
      this.map.easeTo({ center: first.geometry.coordinates, zoom: Math.min(zoom + 0.3, 14) });
    } else if (first.layer.id === "devices") {
      const rows = [...new Set(found.filter((one) => one.layer.id === "devices").map((one) => one.properties.row))];
      this.tellDevice(first.geometry.coordinates, this.then || this.data, row, rows.filter((one) => one !== row));
    } else if (first.properties.source === "data") {
      this.tellDevice(first.geometry.coordinates, this.data, row);
    } else if (["track", "hours", "moving"].includes(first.layer.id)) {
      this.tell(event.lngLat, el("p", {}, deviceLink(this.track, row)), el("p", {}, instant(this.track.values.fixed_at[row], { seconds: true })), facts(this.track, row, ["speed_kmh", "rsrp_dbm", "carrier"]), this.track.values.speed_kmh[row] === null && this.speedAt(row) !== null ? el("p", {}, `About ${show("speed", this.speedAt(row))} since the fix before`) : null);
    } else if (first.layer.id === "stops") {
      const seconds = this.stopRows.values.dwell_s[row];
      this.tell(event.lngLat, el("p", {}, deviceLink(this.stopRows, row)), el("p", {}, seconds === null ? "Stopped here" : `Stop of ${duration(seconds)}`), facts(this.stopRows, row, ["arrived_at", "left_at", "visits_to_place"]));
    } else this.tell(event.lngLat, facts(this.cells, row, ["carrier", "mean_rsrp_dbm", "weak_pct", "fixes", "routers"]));
  }

  tellDevice(at, data, row, others = []) {
    const id = String(data.values.router_id[row]);
    const hasTrack = this.chosen().includes(id);
    const state = data === this.then ? null : el("p", {}, `${STATES[stateOf(data, row)].sign} ${STATES[stateOf(data, row)].label}`.trim());
    this.tell(at, el("p", {}, deviceLink(data, row)), state, facts(data, row, ["carrier", "speed_kmh", "rsrp_dbm", "located_at", "fixed_at"]),
      el("p", {}, place(data.values.latitude_deg[row], data.values.longitude_deg[row])),
      others.length ? el("p", {}, `${plural(others.length, "more device")} here: `, others.slice(0, 4).map((one, n) => [n ? ", " : "", el("button", { type: "button", class: "link", onclick: () => this.tellDevice(at, data, one, [row, ...others.filter((other) => other !== one)]) }, deviceName(data, one).slice(0, 40))]).flat(), others.length > 4 ? " …" : "") : null,
      el("p", {}, el("button", { type: "button", onclick: () => { this.closePopup(); this.tick(id, !hasTrack); } }, hasTrack ? "Remove its track" : "Show its track")));
    this.list.mark(id);
  }

  // From the list: go there, and say what is there.
  pick(id) {
    if (!this.map) { location.assign(linkTo("/device", { router: id })); return; }
    const data = this.then || this.data;
    const row = data.values.router_id.findIndex((one) => String(one) === id);
    this.list.mark(id);
    if (row < 0 || data.values.latitude_deg[row] === null) { this.closePopup(); return; }
    const at = [data.values.longitude_deg[row], data.values.latitude_deg[row]];
    this.map.flyTo({ center: at, zoom: Math.max(this.map.getZoom(), this.closeZoom), speed: 2.4, maxDuration: 2500 });
    this.tellDevice(at, data, row);
    if (innerWidth <= 900) this.holder.scrollIntoView({ block: "center" });
  }
}

export async function drawMap(data, panel) {
  if (!shown) {
    shown = new FleetMap(panel);
    document.addEventListener("view", async ({ detail }) => {
      if (!shown.data || !detail.some((name) => ["day", "at", "vehicles"].includes(name))) return;
      await shown.update();
      if (!shown.timer) panel.load(detail.every((name) => name === "at") ? ["replay"] : ["track", "stops", "replay"]);
    });
    panel.body.replaceChildren(...shown.parts);
  }
  await shown.show(data);
  return shown.parts;
}
