// The user's own map tiles under the points: a PMTiles file, read by ranges from this page's server.
import { loadScript } from "./dom.js";

const LIGHT = { land: "#f4f2ec", green: "#e3eadb", water: "#b9cfe0", building: "#e2ded4", road: "#ffffff", casing: "#c9c2b4", border: "#8d99a3", text: "#333333" };
const DARK = { land: "#1f2a33", green: "#22312f", water: "#0b141b", building: "#2a3640", road: "#4b5a66", casing: "#151d24", border: "#6a7883", text: "#d6dde3" };

// What a layer is drawn as, by the names of the schemas of Protomaps, OpenMapTiles and Shortbread.
const ROLES = {
  land: ["earth", "land"],
  green: ["landcover", "landuse", "park", "sites"],
  water: ["water", "ocean", "water_polygons", "physical_polygon"],
  waterway: ["waterway", "water_lines", "physical_line"],
  building: ["buildings", "building"],
  road: ["roads", "transportation", "streets"],
  border: ["boundaries", "boundary"],
  place: ["places", "place", "place_labels"],
};
const MAJOR = ["highway", "major_road", "motorway", "trunk", "primary", "secondary"];
const GREEN = ["forest", "wood", "grass", "park", "nature_reserve", "grassland", "scrub", "farmland", "golf_course"];
const TOWNS = ["locality", "city", "town", "village"];

const kind = ["coalesce", ["get", "kind"], ["get", "class"], ""];
const among = (words) => ["in", kind, ["literal", words]];
const ofType = (type) => ["==", ["geometry-type"], type];
const byZoom = (...stops) => ["interpolate", ["exponential", 1.5], ["zoom"], ...stops];

function drawn(role, name, colours) {
  const layer = (type, paint, more = {}) => ({ id: `tiles-${name}-${type}`, type, source: "tiles", "source-layer": name, paint, ...more });
  const line = (id, colour, width, filter, minzoom) => ({ ...layer("line", { "line-color": colour, "line-width": width }, { filter, minzoom, layout: { "line-cap": "round", "line-join": "round" } }), id: `tiles-${name}-${id}` });
  if (role === "land") return [layer("fill", { "fill-color": colours.land }, { filter: ofType("Polygon") })];
  if (role === "green") return [layer("fill", { "fill-color": colours.green }, { filter: ["all", ofType("Polygon"), among(GREEN)] })];
  if (role === "water") return [layer("fill", { "fill-color": colours.water }, { filter: ofType("Polygon") }), line("line", colours.water, byZoom(8, 0.4, 14, 2), ofType("LineString"), 8)];
  if (role === "waterway") return [line("line", colours.water, byZoom(8, 0.4, 14, 2), ofType("LineString"), 8)];
  if (role === "building") return [layer("fill", { "fill-color": colours.building }, { minzoom: 14, filter: ofType("Polygon") })];
  if (role === "border") return [line("line", colours.border, 1, ofType("LineString"), 0)];
  if (role === "road") {
    const major = ["all", ofType("LineString"), among(MAJOR)];
    const minor = ["all", ofType("LineString"), ["!", among(MAJOR)]];
    return [
      line("casing", colours.casing, byZoom(5, 0.6, 10, 2.6, 16, 14), major, 4),
      line("minor", colours.casing, byZoom(10, 0.3, 13, 1.4, 16, 8), minor, 10),
      line("major", colours.road, byZoom(5, 0.3, 10, 1.4, 16, 10), major, 4),
    ];
  }
  if (role === "place") return [{ ...layer("symbol", { "text-color": colours.text, "text-halo-color": colours.land, "text-halo-width": 1.4 }, { minzoom: 7, filter: among(TOWNS) }), layout: { "text-field": ["coalesce", ["get", "name:en"], ["get", "name"], ""], "text-size": 12, "text-padding": 6 } }];
  return [line("line", colours.border, 0.6, ofType("LineString"), 0)]; // of a schema that is not known: its lines
}

function vectorLayers(held, colours) {
  const order = Object.keys(ROLES);
  const roleOf = (name) => order.find((role) => ROLES[role].includes(name));
  const known = held.layers.filter(roleOf).sort((a, b) => order.indexOf(roleOf(a)) - order.indexOf(roleOf(b)));
  return (known.length ? known : held.layers).flatMap((name) => drawn(roleOf(name), name, colours));
}

// What the server says of its file of tiles: null without one. An error says what is wrong with it.
export async function readTiles() {
  const answer = await fetch("/api/tiles");
  const held = await answer.json();
  if (!answer.ok) throw new Error(`${held.what} ${held.remedy}`);
  return held;
}

// The source and the layers of a file of tiles, for a style of MapLibre.
export async function tileStyle(held, library, isDark) {
  if (!window.pmtiles) await loadScript("/static/vendor/pmtiles.js");
  const protocol = new window.pmtiles.Protocol();
  library.addProtocol("pmtiles", protocol.tile);
  const source = { type: held.is_vector ? "vector" : "raster", url: `pmtiles://${location.origin}/tiles.pmtiles` };
  if (!held.is_vector) source.tileSize = 256;
  const layers = held.is_vector ? vectorLayers(held, isDark ? DARK : LIGHT) : [{ id: "tiles", type: "raster", source: "tiles", paint: isDark ? { "raster-brightness-max": 0.6, "raster-saturation": -0.4 } : {} }];
  return { source, layers };
}
