"""What a page shows, as text, and whether tiles are drawn: for `browser.py`, in its environment."""

import sys
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

ROUTER = "1000001"
SEEDS = (1, 2, 3)
NUMBERED = (
    "/now",
    "/map",
    "/failover?last=all",
    "/batteries?last=all",
    f"/device?last=all&router={ROUTER}",
    "/usage?last=all",
    "/alerts?last=all",
    "/changes?last=all",
    "/data",
)
WATER = (185, 207, 224)
"""The colour of water in the tiles, by day; the outlines have another one."""

SHOWN = """() => {
  const text = (element) => element.innerText.trim();
  const cells = (row) => [...row.querySelectorAll('th, td:not(.bar)')].map(text);
  const card = (one) => [text(one.querySelector('dt')), text(one.querySelector('dd'))];
  return Object.fromEntries(Array.from(document.querySelectorAll('[data-panel]'), (panel) =>
    [panel.id, {
      cards: Object.fromEntries([...panel.querySelectorAll('.card')].map(card)),
      rows: [...panel.querySelectorAll('.body tbody tr')].map(cells),
      notes: [...panel.querySelectorAll('.more, .note')].map(text),
    }]));
}"""
PIXELS = """async ([picture, colour]) => {
  const image = new Image();
  image.src = picture;
  await image.decode();
  const canvas = Object.assign(document.createElement('canvas'),
    { width: image.width, height: image.height });
  const pen = canvas.getContext('2d');
  pen.drawImage(image, 0, 0);
  const { data } = pen.getImageData(0, 0, image.width, image.height);
  let found = 0;
  for (let i = 0; i < data.length; i += 4) {
    found += colour.every((value, n) => Math.abs(data[i + n] - value) < 3);
  }
  return found / (data.length / 4);
}"""


def numbers(watched: Any) -> Iterator[dict[str, Any]]:
    """Yield what each panel of each page shows, for each seed that the caller publishes."""
    for seed in SEEDS:
        yield {"act": "publish", "seed": seed}
        sys.stdin.readline()
        for path in NUMBERED:
            watched.open(path)
            yield {"shown": path, "seed": seed, "panels": watched.page.evaluate(SHOWN)}


def tiles(watched: Any) -> Iterator[dict[str, Any]]:
    """Yield what the map draws with a file of tiles, and without it once the caller removed it."""
    statuses: list[int] = []
    watched.page.on(
        "response",
        lambda one: statuses.append(one.status) if one.url.endswith(".pmtiles") else None,
    )
    yield {"tiles": "there", **_map(watched), "statuses": statuses, **watched.found()}
    yield {"act": "remove tiles"}
    sys.stdin.readline()
    yield {"tiles": "gone", **_map(watched), "foreign": watched.foreign[:]}


def _map(watched: Any) -> dict[str, Any]:
    """Open the map; return the share of it that is water of the tiles, and what it says."""
    watched.open("/map?day=2026-11-18")
    page = watched.page
    page.wait_for_timeout(1500)  # tiles fade in
    picture = page.locator(".map canvas").screenshot()
    address = f"data:image/png;base64,{b64encode(picture).decode()}"
    return {
        "water": page.evaluate(PIXELS, [address, WATER]),
        "told": page.locator("#map .note").all_inner_texts(),
    }
