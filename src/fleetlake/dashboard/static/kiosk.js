// A screen on a wall: `?kiosk=30` shows one page after another, each for 30 seconds.
import { view } from "./address.js";

const LEFT_OUT = ["/devices", "/tables"]; // lists that nobody reads from afar

export function startKiosk() {
  const seconds = Number(view().get("kiosk"));
  if (!(seconds >= 5)) return;
  document.documentElement.classList.add("kiosk");
  const wanted = (view().get("pages") || "").split(",").filter(Boolean).map((slug) => `/${slug}`);
  const listed = [...document.querySelectorAll("nav a")].map((link) => new URL(link.href).pathname);
  const pages = listed.filter((page) => (wanted.length ? wanted.includes(page) : !LEFT_OUT.includes(page)));
  const next = pages[(pages.indexOf(location.pathname) + 1) % pages.length] || location.pathname;
  setInterval(async () => {
    const answer = await fetch("/api/status").catch(() => null); // without a server, this page stays
    if (answer) location.assign(`${next}${location.search}`);
  }, seconds * 1000);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    const given = view();
    for (const name of ["kiosk", "pages"]) given.delete(name);
    location.assign(`${location.pathname}?${given}`);
  });
}
