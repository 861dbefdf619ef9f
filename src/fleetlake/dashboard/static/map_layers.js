// What the map draws: states, clusters, tracks, stops and coverage over the base map. And which part
// of the world it shows.
import { baseStyle, isDark } from "./basemap.js";
import { el } from "./dom.js";
import { preference } from "./format.js";
import { tileStyle } from "./tiles.js";

// Worst first: the order of the list, and what a cluster shows of its members.
export const STATES = {
  offline: { colour: "#d55e00", shape: "triangle", sign: "▲", label: "offline", cluster: "#b84e00", ink: "#ffffff" },
  backup: { colour: "#e69f00", shape: "square", sign: "■", label: "on a backup", cluster: "#e69f00", ink: "#17212b" },
  other: { colour: "#7a7a7a", shape: "diamond", sign: "◆", label: "not yet online", cluster: "#666666", ink: "#ffffff" },
  online: { colour: "#0072b2", shape: "circle", sign: "", label: "online", cluster: "#0072b2", ink: "#ffffff" },
  then: { colour: "#8b3fb0", shape: "circle", sign: "", label: "located in the hour before", cluster: "#8b3fb0", ink: "#ffffff" },
};
export const SIGNAL = [["#440154", -1000], ["#3b528b", -110], ["#21918c", -100], ["#5ec962", -90], ["#fde725", -80]];
export const SPEED = [["#440154", 0], ["#3b528b", 5], ["#21918c", 40], ["#5ec962", 70], ["#fde725", 100]];
export const COLOURS = ["#8b3fb0", "#00875f", "#c2185b", "#a06000", "#0083a3", "#6b7f00", "#5b5bd6", "#b3452c"];
export const EMPTY = { type: "FeatureCollection", features: [] };
export const CLICKED = ["moving", "devices", "clusters", "stops", "hours", "track", "coverage"];

export const stateOf = (data, i) => {
  if (data.values.connection_state[i] === "offline") return "offline";
  if (data.values.is_on_backup[i]) return "backup";
  return data.values.connection_state[i] === "online" ? "online" : "other";
};

export const stepped = (steps) => ["case", ["==", ["get", "value"], null], "#999999", ["step", ["get", "value"], steps[0][0], ...steps.slice(1).flatMap(([colour, from]) => [from, colour])]];

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

const feature = (coordinates, properties) => ({ type: "Feature", properties, geometry: { type: "Point", coordinates } });

export function points(data, properties, latitude = "latitude_deg", longitude = "longitude_deg") {
  const features = [];
  for (let i = 0; i < data.rows; i += 1) {
    const own = data.values[latitude][i] === null ? null : properties(i);
    if (own) features.push(feature([data.values[longitude][i], data.values[latitude][i]], { row: i, ...own }));
  }
  return { type: "FeatureCollection", features };
}

// The pieces of tracks, each with a value or a colour of its own.
export function segments(data, properties) {
  const features = [];
  const at = (k) => [data.values.longitude_deg[k], data.values.latitude_deg[k]];
  for (let i = 1; i < data.rows; i += 1) {
    if (data.values.router_id[i] !== data.values.router_id[i - 1]) continue;
    if (Math.abs(at(i)[0] - at(i - 1)[0]) > 180) continue; // across the antimeridian
    features.push({ type: "Feature", properties: { row: i, ...properties(i) }, geometry: { type: "LineString", coordinates: [at(i - 1), at(i)] } });
  }
  return { type: "FeatureCollection", features };
}

// The first fix of each hour of each track, with its time: the times of day along the way.
export function hours(data, label) {
  const seen = new Set();
  return points(data, (i) => {
    const key = `${data.values.router_id[i]} ${Math.floor(data.values.fixed_at[i] / 3600e3)}`;
    if (seen.has(key)) return null;
    seen.add(key);
    return { label: label(i) };
  });
}

// A text button among the buttons of the map.
class TextControl {
  constructor(text, title, clicked) {
    this.holder = el("div", { class: "maplibregl-ctrl maplibregl-ctrl-group" }, el("button", { type: "button", class: "text-control", title, onclick: clicked }, text));
  }

  onAdd() {
    return this.holder;
  }

  onRemove() {
    this.holder.remove();
  }
}

const worst = (choice) => ["case", ...["offline", "backup", "other", "online"].flatMap((state) => [[">", ["get", state], 0], choice(STATES[state], state)]), choice(STATES.then)];

function layers() {
  const dark = isDark();
  const [ink, halo] = dark ? ["#f2f5f8", "#10161c"] : ["#111111", "#ffffff"];
  const text = { "text-color": ink, "text-halo-color": halo, "text-halo-width": 1.5 };
  const isCluster = ["has", "point_count"];
  const isOne = ["!", isCluster];
  const wide = (least, more) => ["interpolate", ["linear"], ["zoom"], 5, least, 12, more];
  return [
    { id: "coverage", type: "circle", source: "coverage", paint: { "circle-radius": ["interpolate", ["exponential", 2], ["zoom"], 4, 2, 9, 5, 14, 90], "circle-color": stepped(SIGNAL), "circle-opacity": 0.65 } },
    { id: "casing", type: "line", source: "track", layout: { "line-cap": "round" }, paint: { "line-width": wide(4, 8), "line-color": halo } },
    { id: "track", type: "line", source: "track", layout: { "line-cap": "round" }, paint: { "line-width": wide(2.5, 5), "line-color": stepped(SPEED) } },
    { id: "hours", type: "symbol", source: "hours", minzoom: 6, layout: { "text-field": ["get", "label"], "text-size": 11, "text-variable-anchor": ["left", "right", "bottom"], "text-radial-offset": 0.7 }, paint: text },
    { id: "stops", type: "circle", source: "stops", paint: { "circle-radius": 6, "circle-color": "#ffffff", "circle-stroke-color": ["get", "colour"], "circle-stroke-width": 3 } },
    { id: "stop-names", type: "symbol", source: "stops", minzoom: 7, layout: { "text-field": ["concat", "P ", ["get", "label"]], "text-size": 11, "text-variable-anchor": ["top", "bottom"], "text-radial-offset": 0.9 }, paint: text },
    { id: "clusters", type: "circle", source: "devices", filter: isCluster, paint: { "circle-color": worst((state) => state.cluster), "circle-radius": ["step", ["get", "point_count"], 16, 10, 18, 100, 22, 1000, 27], "circle-stroke-color": "#ffffff", "circle-stroke-width": 2, "circle-opacity": 0.92 } },
    { id: "counts", type: "symbol", source: "devices", filter: isCluster, layout: { "text-field": ["concat", ["to-string", ["get", "point_count"]], worst(({ sign }, state) => (sign ? ["concat", `\n${sign}`, ["to-string", ["get", state]]] : ""))], "text-size": 11, "text-line-height": 1.05, "text-allow-overlap": true, "text-ignore-placement": true }, paint: { "text-color": worst((state) => state.ink) } },
    { id: "devices", type: "symbol", source: "devices", filter: isOne, layout: { "icon-image": ["get", "state"], "icon-allow-overlap": true, "icon-ignore-placement": true, "symbol-sort-key": ["match", ["get", "state"], "offline", 3, "backup", 2, 1], "text-field": ["step", ["zoom"], "", 8, ["get", "name"]], "text-size": 12, "text-offset": [0, 1.1], "text-anchor": "top", "text-optional": true }, paint: text },
    { id: "moving", type: "circle", source: "moving", paint: { "circle-radius": 9, "circle-color": ["get", "colour"], "circle-stroke-color": "#ffffff", "circle-stroke-width": 3 } },
    { id: "moving-names", type: "symbol", source: "moving", layout: { "text-field": ["get", "name"], "text-size": 12, "text-offset": [0, 1.1], "text-anchor": "top", "text-optional": true }, paint: text },
  ];
}

export async function createMap(library, holder, held, fitAll) {
  const map = new library.Map({ container: holder, style: await baseStyle(held && (await tileStyle(held, library, isDark()))), center: [-96, 38], zoom: 3, attributionControl: false, maxZoom: 17, dragRotate: false, pitchWithRotate: false, fadeDuration: 0, cooperativeGestures: innerWidth <= 600 });
  map.touchZoomRotate.disableRotation();
  map.addControl(new library.NavigationControl({ showCompass: false }), "top-right");
  map.addControl(new TextControl("Fit all", "Show every device", fitAll), "top-right");
  map.addControl(new library.ScaleControl({ unit: preference("units") === "us" ? "imperial" : "metric" }));
  map.addControl(new library.AttributionControl({ compact: true, customAttribution: ["Natural Earth, US Census Bureau", held?.attribution].filter(Boolean) }));
  await new Promise((resolve) => map.once("style.load", resolve));
  for (const [name, look] of Object.entries(STATES)) map.addImage(name, icon(look), { pixelRatio: 1.6 });
  const members = Object.fromEntries(Object.keys(STATES).map((state) => [state, ["+", ["case", ["==", ["get", "state"], state], 1, 0]]]));
  for (const source of ["coverage", "track", "hours", "stops", "moving"]) map.addSource(source, { type: "geojson", data: EMPTY });
  map.addSource("devices", { type: "geojson", data: EMPTY, cluster: true, clusterRadius: 42, clusterMaxZoom: 9, clusterProperties: members });
  for (const layer of layers()) map.addLayer(layer);
  for (const layer of CLICKED) {
    map.on("mouseenter", layer, () => (map.getCanvas().style.cursor = "pointer"));
    map.on("mouseleave", layer, () => (map.getCanvas().style.cursor = ""));
  }
  return map;
}

// A box around places, as [[west, south], [east, north]]; it may cross the antimeridian, where the
// widest gap between them is elsewhere.
export function boxOf(places) {
  const sorted = places.map(([longitude]) => longitude).sort((a, b) => a - b);
  let [west, east, widest] = [sorted[0], sorted.at(-1), sorted[0] + 360 - sorted.at(-1)];
  for (let i = 1; i < sorted.length; i += 1) {
    const gap = sorted[i] - sorted[i - 1];
    if (gap > widest) [west, east, widest] = [sorted[i] - 360, sorted[i - 1], gap];
  }
  let [south, north] = [90, -90];
  for (const [, latitude] of places) [south, north] = [Math.min(south, latitude), Math.max(north, latitude)];
  return [[west, south], [east, north]];
}

const CELL = 10; // degrees: of a grid whose occupied cells are one region if no wide gap is between

// The places of the region with most of them, e.g. a country without its far islands.
export function densestRegion(places) {
  const cells = new Map();
  const across = 360 / CELL;
  const key = (column, line) => `${(column + 2 * across) % across} ${line}`;
  for (const place of places) {
    const [column, line] = [Math.floor(place[0] / CELL), Math.floor(place[1] / CELL)];
    const name = key(column, line);
    if (!cells.has(name)) cells.set(name, { column, line, places: [] });
    cells.get(name).places.push(place);
  }
  let densest = [];
  for (const start of [...cells.values()]) {
    if (start.isSeen) continue;
    start.isSeen = true;
    const [region, next] = [[], [start]];
    while (next.length) {
      const cell = next.pop();
      region.push(...cell.places);
      for (let x = -2; x <= 2; x += 1) {
        for (let y = -2; y <= 2; y += 1) {
          const near = cells.get(key(cell.column + x, cell.line + y));
          if (near && !near.isSeen) {
            near.isSeen = true;
            next.push(near);
          }
        }
      }
    }
    if (region.length > densest.length) densest = region;
  }
  return densest;
}
