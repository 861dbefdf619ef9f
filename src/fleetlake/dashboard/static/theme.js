// Sets the chosen colours before the page is drawn, so that it does not flash.
(() => {
  let theme = "auto";
  try {
    theme = localStorage.getItem("fleetlake.theme") || "auto";
  } catch {
    // Storage may be off: the system's colours then.
  }
  if (theme !== "auto") document.documentElement.dataset.theme = theme;
})();
