// Draws the panels of a report from the rows that the file itself holds: no server, no net.
import { drawChanges } from "./changes.js";
import { drawBars, drawCalendar, drawHeat, drawLanes } from "./chart.js";
import { debounced, el } from "./dom.js";
import { instant, zoneName } from "./format.js";
import { drawSeries } from "./series.js";
import { drawDrives, drawOutlineMap } from "./outline_map.js";
import { drawInbox } from "./inbox.js";
import { drawTrends } from "./trend.js";
import { drawCards, drawFacts, drawTable } from "./table.js";

const DRAWN = {
  table: drawTable,
  changes: drawChanges,
  cards: drawCards,
  facts: drawFacts,
  inbox: drawInbox,
  trends: drawTrends,
  bars: drawBars,
  heat: drawHeat,
  lanes: drawLanes,
  calendar: drawCalendar,
  series: drawSeries,
  map: drawOutlineMap,
  drives: drawDrives,
};

const held = JSON.parse(document.querySelector("#held").textContent);

async function draw(section) {
  const panel = JSON.parse(section.dataset.panel);
  const body = section.querySelector(".body");
  const answer = held.answers[panel.path];
  section.state ??= {};
  section.classList.toggle("quiet", !answer.rows);
  if (answer.what) body.replaceChildren(el("p", { class: "hint" }, answer.what));
  else if (!answer.rows) body.replaceChildren(el("p", { class: "hint" }, panel.empty));
  else {
    const given = new URLSearchParams(held.given);
    const title = section.querySelector("h2, h3").textContent;
    const content = await DRAWN[panel.kind](answer, { ...panel, title, given, state: section.state, width: body.clientWidth, outlines: held.outlines, drives: held.answers["/api/map/drives"] });
    body.replaceChildren(...[content].flat().filter(Boolean));
  }
  body.setAttribute("aria-busy", "false");
}

document.querySelector("#age").textContent = `Data until ${instant(held.as_of)}, published ${instant(held.published_at)}; times in ${zoneName()}.`;
for (const section of document.querySelectorAll("[data-panel]")) await draw(section);
addEventListener("resize", debounced(() => {
  for (const section of document.querySelectorAll("[data-panel]")) draw(section);
}, 250));
