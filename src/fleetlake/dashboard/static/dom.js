// Elements built from data. Text is always text: nothing here parses HTML.

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) element.append(child);
  }
  return element;
}

export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

// Runs `work` once, `wait` milliseconds after the last call.
export function debounced(work, wait) {
  let timer;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), wait);
  };
}

export function loadScript(address) {
  return new Promise((resolve, reject) => {
    document.head.append(el("script", { src: address, onload: resolve, onerror: reject }));
  });
}

export function loadStyle(address) {
  document.head.append(el("link", { rel: "stylesheet", href: address }));
}
