// Keys: the palette, the rows of lists, and what can be done with a row.
import { el } from "./dom.js";
import { openPalette } from "./palette.js";

const KEYS = [
  ["/ or Ctrl-K", "search devices, pages, groups and reasons"], ["j, k", "next or previous row"], ["Enter", "open the row"],
  ["a", "acknowledge the finding"], ["s", "snooze the finding for a day"], ["x", "choose the finding"], ["Esc", "close what is open"], ["?", "these keys"],
];
const TYPING = "input, select, textarea, [contenteditable]";

let place = -1; // of the row, for when a list is drawn again

function move(step) {
  const rows = [...document.querySelectorAll("main [data-row]")].filter((row) => row.checkVisibility());
  if (!rows.length) return;
  const now = rows.indexOf(document.activeElement?.closest("[data-row]"));
  if (now >= 0) place = now + step;
  else if (place < 0) place = 0; // a list that was drawn again goes on where it was
  place = Math.max(0, Math.min(place, rows.length - 1));
  rows[place].focus();
  rows[place].scrollIntoView({ block: "nearest" });
}

function open(row) {
  (row.querySelector("a[href]") || row.querySelector("summary"))?.click();
}

function showKeys() {
  if (document.querySelector("dialog[open]")) return;
  const close = el("button", { type: "button", onclick: () => dialog.close() }, "Close");
  const dialog = el("dialog", { class: "keys", "aria-label": "Keys" }, el("h2", {}, "Keys"),
    el("dl", {}, KEYS.map(([key, what]) => el("div", {}, el("dt", {}, el("kbd", {}, key)), el("dd", {}, what)))), close);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

function pressed(event) {
  const isSearch = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey);
  if (isSearch) {
    event.preventDefault();
    openPalette();
    return;
  }
  const isTyping = event.target.closest?.(TYPING) && event.target.type !== "checkbox";
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const row = document.activeElement?.closest("[data-row]");
  const step = { j: 1, k: -1 }[event.key];
  if (event.key === "/") openPalette();
  else if (event.key === "?") showKeys();
  else if (step) move(step);
  else if (event.key === "Enter" && row && row === document.activeElement) open(row);
  else if (row && ["a", "s", "x"].includes(event.key)) row.dispatchEvent(new CustomEvent("finding", { bubbles: true, detail: { key: event.key } }));
  else return;
  event.preventDefault();
}

export function startKeys() {
  document.addEventListener("keydown", pressed);
  document.querySelector("#search").addEventListener("click", openPalette);
  document.addEventListener("focusin", ({ target }) => {
    const rows = [...document.querySelectorAll("main [data-row]")].filter((row) => row.checkVisibility());
    const now = rows.indexOf(target.closest("[data-row]"));
    if (now >= 0) place = now;
  });
}
