// Menus of the head and of panels: they close on a click beside them and on Escape.

export function startMenus() {
  const [nav, here] = ["nav", "nav [aria-current]"].map((what) => document.querySelector(what));
  if (here) nav.scrollLeft = here.offsetLeft + here.offsetWidth - nav.offsetLeft - nav.offsetWidth; // pages may not all fit
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
