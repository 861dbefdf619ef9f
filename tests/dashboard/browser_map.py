"""What people do on the map, in Chromium: for `browser.py`, in its environment."""

from collections.abc import Iterator
from typing import Any

SIZES = """() => {
  const map = document.querySelector('.map').getBoundingClientRect();
  const list = document.querySelector('.map-list').getBoundingClientRect();
  return {top: map.top, bottom: map.bottom, beside: list.left >= map.right && list.bottom <= 901};
}"""
NO_WEBGL = """const plain = HTMLCanvasElement.prototype.getContext;
HTMLCanvasElement.prototype.getContext = function (kind, ...more) {
  return kind.startsWith('webgl') ? null : plain.call(this, kind, ...more);
};"""
REGIONS = """async () => {
  const { boxOf, densestRegion } = await import('/static/map_layers.js');
  const country = [[-105, 39.7], [-87.6, 41.9], [-95.4, 29.8], [-116, 43.6]];
  const islands = [[179.9, 52], [-179.9, 51.5], [179.5, -17]];
  const all = densestRegion([...islands, ...country]).sort((a, b) => a[0] - b[0]);
  return JSON.stringify([boxOf(all), boxOf(islands), densestRegion(islands).length]);
}"""
BOXES = "[[[-116,29.8],[-87.6,43.6]],[[-180.5,-17],[-179.9,52]],2]"
POPUP = ".maplibregl-popup"


def map_works(watched: Any) -> Iterator[dict[str, Any]]:
    """Yield what people do on the map and in its list."""
    page = watched.page
    watched.open("/map")
    page.wait_for_timeout(500)
    sizes = page.evaluate(SIZES)
    is_high = abs(sizes["bottom"] - 900) < 1 and sizes["top"] < 130 and sizes["beside"]
    yield {"act": "the map takes the window, and its list is beside it", "is_right": is_high}

    slider = page.locator("#map-at")
    ends = [slider.input_value(), slider.get_attribute("max")]
    is_right = ends[0] == ends[1] and page.locator(".slide output").inner_text().startswith("now")
    yield {"act": "the slider stands at now, as it says", "is_right": is_right}

    boxes = page.evaluate(REGIONS)
    yield {"act": "the map begins with the densest region", "is_right": boxes == BOXES, "is": boxes}

    yield from _list_works(watched)
    yield from _tracks_work(watched)


def _list_works(watched: Any) -> Iterator[dict[str, Any]]:
    page = watched.page
    rows = page.locator(".devices li")
    offline = page.locator(".state[data-state=offline]")
    counts = [int(one) for one in page.locator(".state b").all_inner_texts()]
    hidden = int(offline.locator("b").inner_text())
    before = rows.count()
    offline.click()
    is_right = before == sum(counts) and rows.count() == before - hidden and hidden > 0
    yield {"act": "the legend counts each state, and hides one", "is_right": is_right}
    offline.click()

    page.locator(".map-list .finder").fill("boise-00007")
    page.wait_for_timeout(300)
    is_found = rows.count() == 1
    rows.locator(".pick").click()
    page.wait_for_timeout(3000)
    said = page.locator(POPUP).all_inner_texts()
    is_right = is_found and len(said) == 1 and "V700-Boise-00007" in said[0]
    yield {"act": "the list leads to a device, with one pop-up", "is_right": is_right}

    page.keyboard.press("Escape")
    is_shut = page.locator(POPUP).count() == 0
    middle = page.locator(".map canvas").bounding_box()
    for _ in range(2):
        page.mouse.click(middle["x"] + middle["width"] / 2, middle["y"] + middle["height"] / 2)
        page.wait_for_timeout(400)
    is_right = is_shut and page.locator(POPUP).count() == 1
    yield {"act": "each click on the map leaves one pop-up", "is_right": is_right}

    near = page.locator(".map").get_attribute("data-bounds").split()
    page.locator(".map button", has_text="Fit all").click()
    far = page.locator(".map").get_attribute("data-bounds").split()
    is_right = float(far[0]) < float(near[0]) and float(near[3]) < float(far[3])
    yield {"act": "Fit all shows every device", "is_right": is_right}


def _tracks_work(watched: Any) -> Iterator[dict[str, Any]]:
    page = watched.page
    page.locator(".map-list .finder").fill("v700")
    page.wait_for_timeout(300)
    page.locator(".devices .pick").first.focus()
    page.keyboard.press("j")
    second = page.evaluate("document.activeElement.closest('li').dataset.id")
    yield {"act": "j leads to the next device of the list", "is_right": second == "1000001"}

    for box in page.locator(".devices input").all():
        box.check()
    page.locator("#map-day").fill("2026-11-11")
    watched.settle()
    page.wait_for_timeout(800)
    colours = page.locator(".devices .swatch").evaluate_all(
        "all => all.map((one) => one.style.background)"
    )
    names = {*page.locator("#track .body tbody th").all_inner_texts()}
    is_right = (
        len({*colours}) == 2
        and "vehicles=1000007%2C1000001" in page.url
        and names == {"V700-Denver-00001", "V700-Boise-00007"}
    )
    yield {"act": "two devices are ticked, each in its colour", "is_right": is_right}
    clock = page.locator(".slide output").inner_text()
    is_right = clock == "2026-11-11 23:59" and "at=2026-11-11T23%3A59" in page.url
    yield {"act": "a past day is shown at its end", "is_right": is_right, "is": clock}

    page.select_option("#map-pace", "1200")
    page.locator(".map-controls button", has_text="Play").click()
    page.wait_for_timeout(1500)
    page.locator(".map-controls button", has_text="Stop").click()
    watched.settle()
    moved = page.locator(".slide output").inner_text()
    is_right = "2026-11-11 00:05" < moved < clock and moved[11:13] in page.url
    yield {"act": "a replay runs at the chosen speed", "is_right": is_right, "is": moved}
    page.locator(".map-controls button", has_text="Now").click()
    watched.settle()
    yield {"act": "Now leads back", "is_right": "at=" not in page.url}


def map_without_webgl(flat: Any) -> Iterator[dict[str, Any]]:
    """Yield what the map is where a browser cannot draw it."""
    flat.page.add_init_script(NO_WEBGL)
    flat.open("/map")
    flat.page.wait_for_timeout(500)
    said = flat.page.locator("#map .problem-line").inner_text()
    is_right = "no WebGL" in said and flat.page.locator(".map .outline-map circle").count() > 3
    yield {"act": "without WebGL the map is a picture", "is_right": is_right, **flat.found()}
