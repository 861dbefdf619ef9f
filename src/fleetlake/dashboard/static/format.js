// Values as people read them, in the chosen zone and units.
import { nearestCity } from "./cities.js";

const KEY = "fleetlake.";
const DEFAULTS = { zone: "utc", units: "metric", theme: "auto" };

export function preference(name) {
  try {
    return localStorage.getItem(KEY + name) || DEFAULTS[name];
  } catch {
    return DEFAULTS[name];
  }
}

export function setPreference(name, value) {
  try {
    localStorage.setItem(KEY + name, value);
  } catch {
    // Storage may be off: the choice then lasts until the page is left.
  }
  DEFAULTS[name] = value;
}

export function zoneName() {
  return preference("zone") === "utc" ? "UTC" : Intl.DateTimeFormat().resolvedOptions().timeZone;
}

function parts(milliseconds, options) {
  const zone = preference("zone") === "utc" ? { timeZone: "UTC" } : {};
  const format = new Intl.DateTimeFormat("en-CA", { hourCycle: "h23", ...options, ...zone });
  return Object.fromEntries(format.formatToParts(milliseconds).map((part) => [part.type, part.value]));
}

export function instant(milliseconds, { seconds = false } = {}) {
  const p = parts(milliseconds, {
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
  });
  const time = `${p.hour}:${p.minute}${seconds ? `:${p.second}` : ""}`;
  return `${p.year}-${p.month}-${p.day} ${time}`;
}

export function duration(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ${String(Math.floor((s % 3600) / 60)).padStart(2, "0")} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export function ago(milliseconds, now = Date.now()) {
  const s = (now - milliseconds) / 1000;
  if (s < -60) return `in ${duration(-s)}`;
  return s < 60 ? "just now" : `${duration(s)} ago`;
}

const number = (value, digits = 0) =>
  value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });

function plainNumber(value) {
  if (typeof value !== "number") return String(value);
  return Number.isInteger(value) ? number(value) : value.toLocaleString("en", { maximumFractionDigits: 2 });
}

export function bytes(value) {
  const steps = ["B", "kB", "MB", "GB", "TB", "PB"];
  let step = 0;
  let rest = value;
  while (Math.abs(rest) >= 1000 && step < steps.length - 1) {
    rest /= 1000;
    step += 1;
  }
  return `${number(rest, step && Math.abs(rest) < 100 ? 1 : 0)} ${steps[step]}`;
}

const isUs = () => preference("units") === "us";

const KINDS = {
  instant: (v) => instant(v),
  percent: (v) => `${number(v, v === Math.round(v) ? 0 : v > 99 && v < 100 ? 2 : 1)} %`,
  bytes,
  duration,
  hours: (v) => duration(v * 3600),
  speed: (v) => (isUs() ? `${number(v * 0.621371)} mph` : `${number(v)} km/h`),
  distance: (v) => (isUs() ? `${number(v * 0.621371, 1)} mi` : `${number(v, 1)} km`),
  temperature: (v) => (isUs() ? `${number(v * 1.8 + 32)} °F` : `${number(v, 1)} °C`),
  dbm: (v) => `${number(v)} dBm`,
  db: (v) => `${number(v, 1)} dB`,
  metres: (v) => (isUs() ? `${number(v * 3.28084)} ft` : `${number(v)} m`),
  milliamps: (v) => `${number(v)} mA`,
  millivolts: (v) => `${number(v)} mV`,
  degrees: (v) => number(v, 4),
  money: (v) => (v > 0 && v < 0.005 ? "< 0.01" : number(v, 2)),
  month: (v) => v.slice(0, 7),
  yes_no: (v) => (v ? "yes" : "no"),
  number: plainNumber,
};

const NUMERIC = new Set(Object.keys(KINDS).filter((kind) => !["instant", "month", "yes_no"].includes(kind)));

export const isNumeric = (kind) => NUMERIC.has(kind);

export function show(kind, value) {
  if (value === null || value === undefined || value === "") return "–";
  return KINDS[kind] ? KINDS[kind](value) : String(value);
}

// A value of a chart's axis, in the chosen units.
export function scaled(kind, value) {
  if (value === null || !isUs()) return value;
  return { speed: value * 0.621371, distance: value * 0.621371, temperature: value * 1.8 + 32 }[kind] ?? value;
}

export function place(latitude, longitude) {
  if (latitude === null || longitude === null || latitude === undefined) return "–";
  const { name, km, bearing } = nearestCity(latitude, longitude);
  if (km > 400) return `${number(latitude, 2)}, ${number(longitude, 2)}`;
  return km < 15 ? name : `${KINDS.distance(km).replace(/\.\d/, "")} ${bearing} of ${name}`;
}
