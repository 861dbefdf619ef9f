// The map: devices now or at a moment, one router's day, coverage, over outlines or the user's own tiles.
import { changeView, linkTo, view } from "./address.js";
import { baseStyle, isDark } from "./basemap.js";
import { debounced, el } from "./dom.js";
import { duration, instant, place, preference, show } from "./format.js";
import { deviceLink, deviceName, drawTable } from "./table.js";
import { readTiles, tileStyle } from "./tiles.js";

const STATES = {
  online: { colour: "#0072b2", shape: "circle", label: "online" },
  backup: { colour: "#e69f00", shape: "square", label: "on a backup" },
  offline: { colour: "#d55e00", shape: "triangle", label: "offline" },
  other: { colour: "#7a7a7a", shape: "diamond", label: "not yet online" },
  then: { colour: "#8b3fb0", shape: "circle", label: "at the chosen moment" },
};
const SIGNAL = [["#440154", -1000], ["#3b528b", -110], ["#21918c", -100], ["#5ec962", -90], ["#fde725", -80]];
const SPEED = [["#440154", 0], ["#3b528b", 5], ["#21918c", 40], ["#5ec962", 70], ["#fde725", 100]];
const EMPTY = { type: "FeatureCollection", features: [] };

let library;
let shown = null;

function icon({ colour, shape }) {
  const size = 26;
  const canvas = Object.assign(document.createElement("canvas"), { width: size, height: size });
  const pen = canvas.getContext("2d");
  pen.beginPath();
  if (shape === "circle") pen.arc(13, 13, 9, 0, 7);
  if (shape === "square") pen.rect(5, 5, 16, 16);
  if (shape === "triangle") [[13, 2], [24, 22], [2, 22]].forEach(([x, y], i) => pen[i ? "lineTo" : "moveTo"](x, y));
  if (shape === "diamond") [[13, 2], [24, 13], [13, 24], [2, 13]].forEach(([x, y], i) => pen[i ? "lineTo" : "moveTo"](x, y));
  pen.closePath();
  Object.assign(pen, { fillStyle: colour, strokeStyle: "#ffffff", lineWidth: 3 });
  pen.fill();
  pen.stroke();
  return pen.getImageData(0, 0, size, size);
}

const stateOf = (data, i) => {
  if (data.values.connection_state[i] === "offline") return "offline";
  if (data.values.is_on_backup[i]) return "backup";
  return data.values.connection_state[i] === "online" ? "online" : "other";
};

function points(data, properties, latitude = "latitude_deg", longitude = "longitude_deg") {
  const features = [];
  for (let i = 0; i < data.rows; i += 1) {
    if (data.values[latitude][i] === null) continue;
    features.push({
      type: "Feature",
      properties: { row: i, ...properties(i) },
      geometry: { type: "Point", coordinates: [data.values[longitude][i], data.values[latitude][i]] },
    });
  }
  return { type: "FeatureCollection", features };
}

function segments(data, column) {
  const features = [];
  for (let i = 1; i < data.rows; i += 1) {
    const at = (k) => [data.values.longitude_deg[k], data.values.latitude_deg[k]];
    if (Math.abs(at(i)[0] - at(i - 1)[0]) > 180) continue; // across the antimeridian
    features.push({ type: "Feature", properties: { row: i, value: data.values[column][i] }, geometry: { type: "LineString", coordinates: [at(i - 1), at(i)] } });
  }
  return { type: "FeatureCollection", features };
}

const stepped = (steps) => ["case", ["==", ["get", "value"], null], "#999999", ["step", ["get", "value"], steps[0][0], ...steps.slice(1).flatMap(([colour, from]) => [from, colour])]];

function popup(map, at, ...content) {
  new library.Popup({ closeButton: true, maxWidth: "280px" }).setLngLat(at).setDOMContent(el("div", { class: "popup" }, ...content)).addTo(map);
}

function facts(data, row, names) {
  return el("dl", { class: "facts" }, names.map((name) => {
    const column = data.columns.find((one) => one.name === name);
    return column && data.values[name][row] !== null ? el("div", {}, el("dt", {}, column.label), el("dd", {}, show(column.kind, data.values[name][row]))) : null;
  }));
}

async function createMap(holder, held) {
  library ??= await import("./vendor/maplibre-gl.mjs");
  if (!document.querySelector("link[href*=maplibre]")) {
    const sheet = el("link", { rel: "stylesheet", href: "/static/vendor/maplibre-gl.css" });
    await new Promise((resolve) => { sheet.onload = resolve; sheet.onerror = resolve; document.head.append(sheet); });
  }
  const map = new library.Map({ container: holder, style: await baseStyle(held && (await tileStyle(held, library, isDark()))), center: [-96, 38], zoom: 3, attributionControl: false, maxZoom: 17, dragRotate: false, pitchWithRotate: false });
  map.touchZoomRotate.disableRotation();
  map.addControl(new library.NavigationControl({ showCompass: false }), "top-right");
  map.addControl(new library.ScaleControl({ unit: preference("units") === "us" ? "imperial" : "metric" }));
  map.addControl(new library.AttributionControl({ compact: true, customAttribution: ["Natural Earth, US Census Bureau", held?.attribution].filter(Boolean) }));
  await new Promise((resolve) => map.once("load", resolve));
  for (const [name, look] of Object.entries(STATES)) map.addImage(name, icon(look), { pixelRatio: 1.6 });
  for (const source of ["coverage", "track", "stops", "devices"]) map.addSource(source, { type: "geojson", data: EMPTY });
  map.addLayer({ id: "coverage", type: "circle", source: "coverage", paint: { "circle-radius": ["interpolate", ["exponential", 2], ["zoom"], 4, 2, 9, 5, 14, 90], "circle-color": stepped(SIGNAL), "circle-opacity": 0.65 } });
  map.addLayer({ id: "track", type: "line", source: "track", layout: { "line-cap": "round" }, paint: { "line-width": 4, "line-color": stepped(SPEED) } });
  map.addLayer({ id: "stops", type: "circle", source: "stops", paint: { "circle-radius": 7, "circle-color": "#ffffff", "circle-stroke-color": "#000000", "circle-stroke-width": 2 } });
  map.addLayer({ id: "devices", type: "symbol", source: "devices", layout: { "icon-image": ["get", "state"], "icon-allow-overlap": true, "icon-ignore-placement": true, "symbol-sort-key": ["match", ["get", "state"], "offline", 3, "backup", 2, 1], "text-field": ["step", ["zoom"], "", 8, ["get", "name"]], "text-size": 12, "text-offset": [0, 1.1], "text-anchor": "top", "text-optional": true }, paint: { "text-color": "#111111", "text-halo-color": "#ffffff", "text-halo-width": 1.5 } });
  for (const layer of ["devices", "stops", "coverage", "track"]) {
    map.on("mouseenter", layer, () => (map.getCanvas().style.cursor = "pointer"));
    map.on("mouseleave", layer, () => (map.getCanvas().style.cursor = ""));
  }
  return map;
}

function check(name, label, isOn, changed) {
  const box = el("input", { type: "checkbox", id: `layer-${name}`, checked: isOn });
  box.addEventListener("change", () => changed(box.checked));
  return el("span", { class: "check" }, box, el("label", { for: `layer-${name}` }, label));
}

class FleetMap {
  constructor(panel) {
    this.panel = panel;
    this.holder = el("div", { class: "map", role: "region", "aria-label": "Map of devices; the tables below say the same in words" });
    this.colour = "speed_kmh";
    this.wants = { coverage: false };
    this.controls = this.createControls();
    this.legend = el("p", { class: "legend" });
    this.told = el("p", { class: "note", role: "status" });
    this.problem = el("p", { class: "note", role: "status" });
    this.table = el("details", { class: "as-table" }, el("summary", {}, "Devices on the map, as a table"));
    this.isFitted = false;
  }

  createControls() {
    this.day = el("input", { type: "date", id: "map-day" });
    this.day.addEventListener("change", () => changeView({ day: this.day.value, at: this.slider.disabled || !view().get("at") ? "" : this.moment() }));
    this.slider = el("input", { type: "range", id: "map-at", min: 0, max: 1439, step: 5, value: 0 });
    const move = debounced(() => changeView({ at: this.moment() }, { replace: true }), 120);
    this.slider.addEventListener("input", () => { this.sayMoment(); move(); });
    this.clock = el("output", { for: "map-at" }, "now");
    this.play = el("button", { type: "button" }, "Play");
    this.play.addEventListener("click", () => this.togglePlay());
    this.now = el("button", { type: "button" }, "Now");
    this.now.addEventListener("click", () => { this.stop(); changeView({ at: "" }); });
    const colour = el("select", { id: "map-colour" }, el("option", { value: "speed_kmh" }, "speed"), el("option", { value: "rsrp_dbm" }, "signal"));
    colour.addEventListener("change", () => { this.colour = colour.value; this.loadTrack(); });
    return el("div", { class: "map-controls", role: "group", "aria-label": "What the map shows" },
      el("span", {}, el("label", { for: "map-day" }, "Day (UTC)"), this.day),
      el("span", { class: "slide" }, el("label", { for: "map-at" }, "Replay"), this.slider, this.clock, this.play, this.now),
      el("span", {}, el("label", { for: "map-colour" }, "Track by"), colour),
      check("coverage", "coverage", false, (isOn) => { this.wants.coverage = isOn; this.loadCoverage(); }));
  }

  moment() {
    return new Date(Date.parse(`${this.day.value}T00:00:00Z`) + this.slider.valueAsNumber * 60000).toISOString().replace(".000", "");
  }

  sayMoment() {
    this.clock.textContent = instant(Date.parse(this.moment()));
    this.slider.setAttribute("aria-valuetext", this.clock.textContent);
  }

  togglePlay() {
    if (this.timer) { this.stop(); return; }
    this.play.textContent = "Stop";
    this.timer = setInterval(() => {
      if (this.slider.valueAsNumber >= 1435) { this.stop(); return; }
      this.slider.value = this.slider.valueAsNumber + 10;
      this.sayMoment();
      changeView({ at: this.moment() }, { replace: true });
    }, 700);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.play.textContent = "Play";
  }

  async show(data, given) {
    this.data = data;
    if (!view().get("day")) {
      changeView({ day: new Date(data.as_of).toISOString().slice(0, 10) }, { replace: true });
      this.panel.load(["track", "stops"]);
    }
    this.table.replaceChildren(this.table.firstChild, ...drawTable(data, { title: "Devices on the map", state: (this.tableState ??= {}) }));
    this.map ??= await this.start();
    await this.update(given);
  }

  async start() {
    const held = await readTiles().catch((error) => this.warn(error.message));
    const map = await createMap(this.holder, held);
    map.on("error", (event) => { if (event.sourceId === "tiles") this.warn(`The map tiles cannot be read (${event.error.message}). The outlines stay.`); });
    map.on("click", "devices", (event) => this.tell(event));
    map.on("click", "track", (event) => { const row = event.features[0].properties.row; popup(map, event.lngLat, el("p", {}, instant(this.track.values.fixed_at[row], { seconds: true })), facts(this.track, row, ["speed_kmh", "rsrp_dbm", "carrier"])); });
    map.on("click", "stops", (event) => { const row = event.features[0].properties.row; popup(map, event.lngLat, el("p", {}, `Stop of ${duration(this.stopRows.values.dwell_s[row])}`), facts(this.stopRows, row, ["arrived_at", "left_at", "visits_to_place"])); });
    map.on("click", "coverage", (event) => { const row = event.features[0].properties.row; popup(map, event.lngLat, facts(this.cells, row, ["carrier", "mean_rsrp_dbm", "weak_pct", "fixes", "routers"])); });
    map.on("moveend", debounced(() => { if (this.wants.coverage) this.loadCoverage(); if (Math.abs(map.getZoom() - (this.trackZoom ?? -9)) > 1) this.loadTrack(); }, 200));
    return map;
  }

  // Says why the user's own tiles are not drawn; the map works without them.
  warn(what) {
    this.problem.textContent = what;
    return null;
  }

  tell(event) {
    const data = this.then || this.data;
    const row = event.features[0].properties.row;
    const id = data.values.router_id[row];
    popup(this.map, event.lngLat, el("p", {}, deviceLink(data, row)), facts(data, row, ["connection_state", "carrier", "speed_kmh", "rsrp_dbm", "located_at", "fixed_at"]),
      el("p", {}, place(data.values.latitude_deg[row], data.values.longitude_deg[row])), el("p", {}, el("a", { href: linkTo("/map", { router: id, day: view().get("day") || "" }) }, "Show its track")));
  }

  async update() {
    const given = view();
    this.day.value = given.get("day") || "";
    this.now.disabled = !given.get("at");
    if (given.get("at")) {
      const at = new Date(given.get("at"));
      if (document.activeElement !== this.slider) this.slider.value = at.getUTCHours() * 60 + at.getUTCMinutes();
      this.sayMoment();
    } else this.clock.textContent = "now";
    await Promise.all([this.loadDevices(), this.loadTrack(), this.wants.coverage ? this.loadCoverage() : null]);
    if (!this.isFitted && !this.track?.rows) this.fit();
    this.isFitted = true;
  }

  async loadDevices() {
    if (view().get("at")) {
      this.then = await this.panel.read("/api/map/replay").catch((error) => { this.told.textContent = error.message; return null; });
      if (!this.then) return;
      this.map.getSource("devices").setData(points(this.then, (i) => ({ state: "then", name: deviceName(this.then, i).slice(0, 40) })));
      this.told.textContent = `Vehicles located in the hour before ${this.clock.textContent}: ${this.then.rows}.`;
    } else {
      this.then = null;
      this.map.getSource("devices").setData(points(this.data, (i) => ({ state: stateOf(this.data, i), name: deviceName(this.data, i).slice(0, 40) })));
      this.told.textContent = `Devices where they were last located: ${this.data.rows}${this.data.is_cut ? "; there are more, so narrow the filters" : ""}.`;
    }
    this.drawLegend();
  }

  async loadTrack() {
    const given = view();
    const hasTrack = given.get("router") && given.get("day");
    this.trackZoom = this.map.getZoom();
    const key = `${given.get("router")} ${given.get("day")}`;
    const zoom = this.fittedTo === key ? Math.max(0, this.trackZoom - 1) : 11; // its box is not known yet
    const [track, stops] = hasTrack ? await Promise.all([this.panel.read("/api/map/track", { zoom }), this.panel.read("/api/map/stops")]).catch(() => [null, null]) : [null, null];
    [this.track, this.stopRows] = [track, stops];
    this.map.getSource("track").setData(track ? segments(track, this.colour) : EMPTY);
    this.map.setPaintProperty("track", "line-color", stepped(this.colour === "speed_kmh" ? SPEED : SIGNAL));
    this.map.getSource("stops").setData(stops ? points(stops, () => ({})) : EMPTY);
    if (track?.rows && this.fittedTo !== key) { this.fittedTo = key; this.fit(track); }
    this.drawLegend();
  }

  async loadCoverage() {
    const bounds = this.map.getBounds();
    const box = { west: bounds.getWest(), south: bounds.getSouth(), east: bounds.getEast(), north: bounds.getNorth() };
    this.cells = this.wants.coverage ? await this.panel.read("/api/map/coverage", box).catch(() => null) : null;
    this.map.getSource("coverage").setData(this.cells ? points(this.cells, (i) => ({ value: this.cells.values.mean_rsrp_dbm[i] }), "cell_latitude_deg", "cell_longitude_deg") : EMPTY);
    this.drawLegend();
  }

  fit(data = this.data) {
    const box = new library.LngLatBounds();
    for (let i = 0; i < data.rows; i += 1) if (data.values.latitude_deg[i] !== null && (data.rows < 3 || data.values.longitude_deg[i] < 170)) box.extend([data.values.longitude_deg[i], data.values.latitude_deg[i]]);
    if (!box.isEmpty()) this.map.fitBounds(box, { padding: 40, maxZoom: 13, animate: false });
  }

  drawLegend() {
    const key = ({ colour, shape, label }) => el("span", { class: "key" }, el("span", { class: `mark ${shape}`, style: { background: colour } }), ` ${label}`);
    const scale = (steps, kind, name) => el("span", { class: "key" }, `${name}: `, steps.map(([colour, from], i) => el("span", {}, el("span", { class: "swatch", style: { background: colour } }), i ? ` from ${show(kind, from)} ` : ` below ${show(kind, steps[1][1])} `)));
    this.legend.replaceChildren(...[
      ...(this.then ? [key(STATES.then)] : ["online", "backup", "offline", "other"].map((name) => key(STATES[name]))),
      this.track?.rows ? (this.colour === "speed_kmh" ? scale(SPEED, "speed", "track") : scale(SIGNAL, "dbm", "track")) : null,
      this.cells ? scale(SIGNAL, "dbm", "coverage") : null,
    ].filter(Boolean));
  }
}

export async function drawMap(data, panel) {
  if (!shown) {
    shown = new FleetMap(panel);
    document.addEventListener("view", async (event) => {
      if (event.detail.some((name) => ["day", "at"].includes(name)) && shown.map) {
        await shown.update();
        panel.load(event.detail.includes("day") ? ["track", "stops", "replay"] : ["replay"]);
      }
    });
  }
  panel.body.replaceChildren(shown.controls, shown.told, shown.problem, shown.holder, shown.legend, shown.table);
  try {
    await shown.show(data, panel.given);
  } catch (error) {
    shown.told.textContent = `This browser cannot draw the map (${error.message}). The tables say the same in words.`;
  }
  return [shown.controls, shown.told, shown.problem, shown.holder, shown.legend, shown.table];
}
