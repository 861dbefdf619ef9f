// A map as a picture: outlines and devices, for a file that has no server.
import { el, svg } from "./dom.js";
import { place } from "./format.js";
import { deviceName, drawTable } from "./table.js";

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

function outline(topology, name, x, y) {
  const lines = window.topojson.mesh(topology, topology.objects[name]).coordinates;
  const path = lines.map((line) => line.map(([longitude, latitude], i) => `${i && Math.abs(longitude - line[i - 1][0]) < 90 ? "L" : "M"}${x(longitude).toFixed(1)} ${y(latitude).toFixed(1)}`).join("")).join("");
  return svg("path", { d: path, class: `outline ${name}`, fill: "none" });
}

export function drawOutlineMap(data, { title, state, width, outlines }) {
  const { west, east, south, north } = box(data);
  const scale = width / ((east - west) * (Math.PI / 180));
  const height = Math.min(700, Math.max(240, (north - south) * scale));
  const x = (longitude) => ((longitude - west) / (east - west)) * width;
  const y = (latitude) => ((north - mercator(latitude)) / (north - south)) * height;
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, class: "outline-map", role: "img", "aria-label": "Map of devices; the table below says the same in words" });
  picture.append(outline(outlines.world, "countries", x, y), outline(outlines.us, "states", x, y));
  let outside = 0;
  for (let i = 0; i < data.rows; i += 1) {
    const [px, py] = [x(data.values.longitude_deg[i]), y(data.values.latitude_deg[i])];
    if (!(px >= 0 && px <= width && py >= 0 && py <= height)) { outside += 1; continue; }
    const kind = stateOf(data, i);
    const shape = mark(...[LOOKS[kind][0], px, py, LOOKS[kind][1]]);
    shape.append(svg("title", {}, `${deviceName(data, i)}, ${NAMES[kind]}, ${place(data.values.latitude_deg[i], data.values.longitude_deg[i])}`));
    picture.append(shape);
  }
  const legend = el("p", { class: "legend" }, Object.entries(LOOKS).map(([kind, [shape, colour]]) => el("span", { class: "key" }, el("span", { class: `mark ${shape}`, style: { background: colour } }), ` ${NAMES[kind]}`)), outside ? el("span", {}, `${outside} devices are beyond this map.`) : null);
  return [picture, legend, ...drawTable(data, { title, state })];
}
