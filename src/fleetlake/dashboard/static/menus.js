// Menus of the head and of panels: they close on a click beside them and on Escape.
import { el } from "./dom.js";

// The pages that do not fit into the row are behind one word; the chosen one names it.
function foldPages(nav, list, more) {
  const [name, menu] = [more.querySelector("summary"), more.querySelector("ul")];
  more.remove();
  list.append(...menu.children);
  while (nav.scrollWidth > nav.clientWidth && list.children.length > 2) {
    if (!more.isConnected) list.append(more);
    menu.prepend(more.previousElementSibling);
  }
  const here = menu.querySelector("[aria-current]");
  name.replaceChildren(here ? here.textContent : "More");
  name.classList.toggle("here", Boolean(here));
}

export function startMenus() {
  const nav = document.querySelector("nav");
  const more = el("li", {}, el("details", { class: "menu" }, el("summary"), el("div", {}, el("ul"))));
  new ResizeObserver(() => foldPages(nav, nav.firstElementChild, more)).observe(nav);
  document.addEventListener("click", ({ target }) => {
    for (const menu of document.querySelectorAll(".menu[open]")) if (!menu.contains(target)) menu.open = false;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of document.querySelectorAll(".menu[open]")) {
      menu.open = false;
      if (menu.contains(document.activeElement)) menu.firstElementChild.focus();
    }
  });
  for (const button of document.querySelectorAll("#pages, #narrow")) {
    button.addEventListener("click", () => button.setAttribute("aria-expanded", button.getAttribute("aria-expanded") !== "true"));
  }
  document.querySelector("#share").addEventListener("click", async ({ target }) => {
    try {
      await navigator.clipboard.writeText(location.href);
      target.textContent = "Copied";
    } catch {
      target.textContent = "Copy the address bar";
    }
    setTimeout(() => (target.textContent = "Copy link"), 2000);
  });
}
