// What changed: a card for each figure, and a sentence.
import { el } from "./dom.js";
import { show } from "./format.js";

const KINDS = { "%": "percent", s: "duration", bytes: "bytes", km: "distance", "km/h": "speed", "°C": "temperature", dBm: "dbm", dB: "db" };

const dayOf = (count) => (count === 1 ? "1 known day" : `${Number(count.toFixed(1))} known days`);

// How a figure differs. Where days are missing, sums are compared by day.
export function changeOf(row) {
  const kind = KINDS[row.unit] ?? "number";
  if (row.value === null) return { now: "?", change: "not known" };
  const now = show(kind, row.value);
  if (row.earlier === null || !row.known_days_before) return { now, change: "nothing known before" };
  const before = `${show(kind, row.earlier)} before`;
  if (!row.is_sum) {
    const more = row.value - row.earlier;
    const points = row.unit === "%" ? `${more < 0 ? "−" : "+"}${Math.abs(more).toFixed(2)} points` : `${more < 0 ? "−" : "+"}${show(kind, Math.abs(more))}`;
    return { now, change: `${points} (${before})` };
  }
  const isPart = row.known_days < row.days || row.known_days_before < row.days;
  const said = isPart ? `${before} in ${dayOf(row.known_days_before)}` : before;
  const [rate, was] = [row.value / (row.known_days || row.days), row.earlier / row.known_days_before];
  const aDay = isPart ? " a day" : "";
  if (!was) return { now, change: row.value ? said : `as before (${said})` };
  const share = 100 * (rate / was - 1);
  if (Math.abs(share) < 0.5) return { now, change: `as much${aDay} as before (${said})` };
  return { now, change: `${Math.round(Math.abs(share)).toLocaleString("en")} % ${share > 0 ? "more" : "less"}${aDay} (${said})` };
}

export function drawChanges(data) {
  const rows = Array.from({ length: data.rows }, (_, i) => Object.fromEntries(Object.entries(data.values).map(([name, column]) => [name, column[i]])));
  const { since_date: since, last_date: last, before_date: before } = rows[0];
  const lastBefore = new Date(Date.parse(since) - 864e5).toISOString().slice(0, 10);
  const told = rows.map((row) => ({ figure: row.figure, ...changeOf(row) }));
  return [
    el("p", { class: "about" }, `${since} to ${last}, compared with ${before} to ${lastBefore} (UTC days).`),
    el("dl", { class: "cards changes" }, told.map(({ figure, now, change }) => el("div", { class: "card" }, el("dt", {}, figure), el("dd", {}, now), el("dd", {}, change)))),
    document.documentElement.dataset.page === "report" && el("ul", {}, told.map(({ figure, now, change }) => el("li", {}, `${figure}: ${now}, ${change}.`))),
  ];
}
