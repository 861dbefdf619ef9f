// The base map: outlines of countries, states and counties, and names of large cities.
import { cityPoints } from "./cities.js";
import { loadScript } from "./dom.js";

const LIGHT = { sea: "#cfdde8", land: "#f4f2ec", border: "#8d99a3", state: "#b3bac0", county: "#d8d6cf", text: "#333333", halo: "#f4f2ec" };
const DARK = { sea: "#0d1821", land: "#1f2a33", border: "#6a7883", state: "#46535d", county: "#2f3a43", text: "#d6dde3", halo: "#1f2a33" };

export const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

// The outlines of the world and of the USA, as TopoJSON, and the script that reads them.
export async function topologies() {
  if (!window.topojson) await loadScript("/static/vendor/topojson-client.min.js");
  const read = async (name) => (await fetch(`/static/vendor/${name}`)).json();
  const [world, us] = await Promise.all([read("countries-50m.json"), read("counties-10m.json")]);
  return { world, us };
}

// A ring that crosses the antimeridian goes on beyond 180 degrees; one around a pole stays as it is.
function unwrapped(ring) {
  let shift = 0;
  const found = ring.map(([longitude, latitude], i) => {
    const step = i ? longitude - ring[i - 1][0] : 0;
    if (Math.abs(step) > 180) shift -= 360 * Math.sign(step);
    return [longitude + shift, latitude];
  });
  return shift ? ring : found;
}

function land(collection) {
  const parts = ({ type, coordinates }) => (type === "Polygon" ? [coordinates] : coordinates);
  const features = collection.features.map((one) => ({ type: "Feature", properties: {}, geometry: { type: "MultiPolygon", coordinates: parts(one.geometry).map((rings) => rings.map(unwrapped)) } }));
  return { type: "FeatureCollection", features };
}

// A style for MapLibre, with the user's own tiles over the land, if there are any. It names no glyphs,
// so labels use the fonts of this machine.
export async function baseStyle(tiles) {
  const style = await outlines();
  if (!tiles) return style;
  style.sources.tiles = tiles.source;
  const at = style.layers.findIndex((layer) => layer.id === "land") + 1;
  style.layers.splice(at, 0, ...tiles.layers);
  const hasNames = tiles.layers.some((layer) => layer.type === "symbol");
  if (hasNames) style.layers.find((layer) => layer.id === "cities").maxzoom = 7; // they have their own
  return style;
}

async function outlines() {
  const { world, us } = await topologies();
  const shape = window.topojson.feature;
  const mesh = (source, name) => ({ type: "Feature", properties: {}, geometry: window.topojson.mesh(source, source.objects[name], (a, b) => a !== b) });
  const colours = isDark() ? DARK : LIGHT;
  const line = (id, width, colour, minzoom = 0) => ({ id, type: "line", source: id, minzoom, paint: { "line-color": colour, "line-width": width } });
  const geojson = (data) => ({ type: "geojson", data, maxzoom: 8, buffer: 32 });
  return {
    version: 8,
    sources: {
      land: geojson(land(shape(world, world.objects.countries))),
      borders: geojson(mesh(world, "countries")),
      states: geojson(mesh(us, "states")),
      counties: geojson(mesh(us, "counties")),
      cities: geojson({ type: "FeatureCollection", features: cityPoints() }),
    },
    layers: [
      { id: "sea", type: "background", paint: { "background-color": colours.sea } },
      { id: "land", type: "fill", source: "land", paint: { "fill-color": colours.land } },
      line("counties", 0.7, colours.county, 5.5),
      line("states", 0.9, colours.state),
      line("borders", 1.1, colours.border),
      { id: "cities", type: "symbol", source: "cities", layout: { "text-field": ["get", "name"], "text-size": 12, "symbol-sort-key": ["get", "rank"], "text-padding": 6, "text-anchor": "bottom", "text-offset": [0, -1.3] }, paint: { "text-color": colours.text, "text-halo-color": colours.halo, "text-halo-width": 1.4 } },
    ],
  };
}
