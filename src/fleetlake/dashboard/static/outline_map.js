// A map as a picture: outlines and devices, for a file that has no server.
import { cityPoints } from "./cities.js";
import { el, svg } from "./dom.js";
import { instant, place, show } from "./format.js";
import { deviceLink, deviceName, drawTable } from "./table.js";

const LOOKS = { online: ["circle", "#0072b2"], backup: ["square", "#e69f00"], offline: ["triangle", "#d55e00"], other: ["diamond", "#7a7a7a"] };
const NAMES = { online: "online", backup: "on a backup", offline: "offline", other: "not yet online" };

const mercator = (latitude) => Math.log(Math.tan(Math.PI / 4 + (Math.min(85, Math.max(-85, latitude)) * Math.PI) / 360));

function stateOf(data, i) {
  if (data.values.connection_state[i] === "offline") return "offline";
  if (data.values.is_on_backup[i]) return "backup";
  return data.values.connection_state[i] === "online" ? "online" : "other";
}

function mark(shape, x, y, fill) {
  const common = { fill, stroke: "#ffffff", "stroke-width": 1.2 };
  if (shape === "circle") return svg("circle", { cx: x, cy: y, r: 5, ...common });
  if (shape === "square") return svg("rect", { x: x - 4.5, y: y - 4.5, width: 9, height: 9, ...common });
  const points = shape === "triangle" ? [[0, -6], [6, 5], [-6, 5]] : [[0, -6], [6, 0], [0, 6], [-6, 0]];
  return svg("polygon", { points: points.map(([dx, dy]) => `${x + dx},${y + dy}`).join(" "), ...common });
}

// The box of most devices: a few far away must not make all others one dot.
function box(data) {
  const share = (values, at) => values[Math.min(values.length - 1, Math.floor(values.length * at))];
  const sorted = (name) => data.values[name].filter((v) => v !== null).sort((a, b) => a - b);
  const [x, y] = [sorted("longitude_deg"), sorted("latitude_deg")];
  const [west, east, south, north] = [share(x, 0.08), share(x, 0.89), share(y, 0.08), share(y, 0.92)];
  const margin = Math.max(1, (east - west) * 0.15);
  return { west: west - margin, east: east + margin, south: mercator(south - margin / 2), north: mercator(north + margin / 2) };
}

// Names of large cities, where they do not cover each other: the larger ones first.
function cityNames(x, y, width, height) {
  const taken = [];
  const shown = [];
  for (const { properties, geometry } of cityPoints()) {
    const [px, py] = [x(geometry.coordinates[0]), y(geometry.coordinates[1])];
    const half = properties.name.length * 3.4;
    const isFree = taken.every(([left, right, middle]) => px + half < left || px - half > right || Math.abs(py - middle) > 15);
    if (px < half || px > width - half || py < 16 || py > height - 4 || !isFree) continue;
    taken.push([px - half, px + half, py]);
    shown.push(svg("text", { x: px, y: py - 8, class: "city" }, properties.name));
  }
  return shown;
}

function outline(topology, name, x, y) {
  const lines = window.topojson.mesh(topology, topology.objects[name]).coordinates;
  const path = lines.map((line) => line.map(([longitude, latitude], i) => `${i && Math.abs(longitude - line[i - 1][0]) < 90 ? "L" : "M"}${x(longitude).toFixed(1)} ${y(latitude).toFixed(1)}`).join("")).join("");
  return svg("path", { d: path, class: `outline ${name}`, fill: "none" });
}

// The rows of each drive: those of a vehicle follow each other.
function drivesOf(data) {
  const found = new Map();
  for (let i = 0; i < (data?.rows ?? 0); i += 1) {
    const id = data.values.router_id[i];
    if (!found.has(id)) found.set(id, []);
    found.get(id).push(i);
  }
  return [...found.values()];
}

function trackPath(data, rows, x, y) {
  const at = (i) => [data.values.longitude_deg[i], data.values.latitude_deg[i]];
  return rows.map((i, n) => `${n && Math.abs(x(at(i)[0]) - x(at(rows[n - 1])[0])) < 400 ? "L" : "M"}${x(at(i)[0]).toFixed(1)} ${y(at(i)[1]).toFixed(1)}`).join("");
}

const SPEEDS = [["#440154", 0, "below 40 km/h"], ["#21918c", 40, "from 40"], ["#b58900", 80, "from 80"]];
const speedStep = (speed) => SPEEDS.findLastIndex(([, from]) => (speed ?? 0) >= from);

// A track on a square of its own: north is up, and both axes have one scale.
function trackPicture(data, rows, size) {
  const margin = 10;
  const written = rows.map((i) => data.values.longitude_deg[i]);
  const isAcross = Math.max(...written) - Math.min(...written) > 180; // the antimeridian
  const longitudes = written.map((longitude) => (isAcross && longitude < 0 ? longitude + 360 : longitude));
  const latitudes = rows.map((i) => data.values.latitude_deg[i]);
  const middle = [(Math.min(...longitudes) + Math.max(...longitudes)) / 2, (Math.min(...latitudes) + Math.max(...latitudes)) / 2];
  const east = Math.cos((middle[1] * Math.PI) / 180);
  const span = Math.max((Math.max(...longitudes) - Math.min(...longitudes)) * east, Math.max(...latitudes) - Math.min(...latitudes), 0.002);
  const scale = (size - 2 * margin) / span;
  const x = (longitude) => size / 2 + ((isAcross && longitude < 0 ? longitude + 360 : longitude) - middle[0]) * east * scale;
  const y = (latitude) => size / 2 - (latitude - middle[1]) * scale;
  const name = deviceName(data, rows[0]);
  const picture = svg("svg", { width: size, height: size, viewBox: `0 0 ${size} ${size}`, class: "outline-map", role: "img", "aria-label": `Track of ${name} on ${data.values.trip_date[rows[0]]}` });
  for (let n = 1; n < rows.length; n += 1) {
    const [colour] = SPEEDS[speedStep(data.values.speed_kmh[rows[n]])];
    picture.append(svg("path", { d: trackPath(data, [rows[n - 1], rows[n]], x, y), stroke: colour, "stroke-width": 2.2, "stroke-linecap": "round", fill: "none", class: "track" }));
  }
  for (const [i, shape, what] of [[rows[0], "circle", "first fix"], [rows.at(-1), "square", "last fix"]]) {
    const end = mark(shape, x(data.values.longitude_deg[i]), y(data.values.latitude_deg[i]), "#d55e00");
    end.append(svg("title", {}, `${what}, ${instant(data.values.fixed_at[i])}`));
    picture.append(end);
  }
  const km = [1, 2, 5, 10, 20, 50, 100, 200, 500].findLast((one) => (one / 111.2) * scale < size / 2) ?? 0.2;
  const bar = (km / 111.2) * scale;
  picture.append(svg("path", { d: `M8 ${size - 8}h${bar.toFixed(1)}`, class: "scale" }), svg("text", { x: 8, y: size - 13, class: "scale-text" }, show("distance", km).replace(/\.0/, "")));
  return picture;
}

export function drawDrives(data) {
  const legend = el("p", { class: "legend" }, SPEEDS.map(([colour, , text]) => el("span", { class: "key" }, el("span", { class: "swatch", style: { background: colour } }), ` ${text}`)), el("span", {}, "● first fix, ■ last fix of the day"));
  const figures = drivesOf(data).map((rows) => {
    const get = (name, i = rows[0]) => data.values[name][i];
    return el("figure", { class: "drive" },
      el("figcaption", {}, deviceLink(data, rows[0])),
      trackPicture(data, rows, 230),
      el("p", { class: "note" }, `${get("trip_date")}: ${show("distance", get("distance_km"))} in ${get("trips")} ${get("trips") === 1 ? "trip" : "trips"}, from ${place(get("latitude_deg"), get("longitude_deg"))} at ${instant(get("fixed_at")).slice(11)} to ${place(get("latitude_deg", rows.at(-1)), get("longitude_deg", rows.at(-1)))} at ${instant(get("fixed_at", rows.at(-1))).slice(11)}`));
  });
  return [legend, el("div", { class: "drives" }, figures)];
}

export function drawOutlineMap(data, { title, state, width, outlines, drives }) {
  const { west, east, south, north } = box(data);
  const scale = width / ((east - west) * (Math.PI / 180));
  const height = Math.min(700, Math.max(240, (north - south) * scale));
  const x = (longitude) => ((longitude - west) / (east - west)) * width;
  const y = (latitude) => ((north - mercator(latitude)) / (north - south)) * height;
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, class: "outline-map", role: "img", "aria-label": "Map of devices; the table below says the same in words" });
  picture.append(outline(outlines.world, "countries", x, y), outline(outlines.us, "states", x, y), ...cityNames(x, y, width, height));
  for (const rows of drivesOf(drives)) {
    const line = svg("path", { d: trackPath(drives, rows, x, y), class: "track on-map", fill: "none" });
    line.append(svg("title", {}, `${deviceName(drives, rows[0])}, ${drives.values.trip_date[rows[0]]}`));
    picture.append(line);
  }
  let outside = 0;
  for (let i = 0; i < data.rows; i += 1) {
    const [px, py] = [x(data.values.longitude_deg[i]), y(data.values.latitude_deg[i])];
    if (!(px >= 0 && px <= width && py >= 0 && py <= height)) { outside += 1; continue; }
    const kind = stateOf(data, i);
    const shape = mark(...[LOOKS[kind][0], px, py, LOOKS[kind][1]]);
    shape.append(svg("title", {}, `${deviceName(data, i)}, ${NAMES[kind]}, ${place(data.values.latitude_deg[i], data.values.longitude_deg[i])}`));
    picture.append(shape);
  }
  const legend = el("p", { class: "legend" }, Object.entries(LOOKS).map(([kind, [shape, colour]]) => el("span", { class: "key" }, el("span", { class: `mark ${shape}`, style: { background: colour } }), ` ${NAMES[kind]}`)), outside ? el("span", {}, `${outside} ${outside === 1 ? "device is" : "devices are"} beyond this map.`) : null);
  return [picture, legend, ...drawTable(data, { title, state })];
}
