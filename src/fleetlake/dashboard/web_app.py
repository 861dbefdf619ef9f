"""The application: pages, the rows of their panels, exports, and the news of a new snapshot."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import orjson
import pyarrow as pa
from anyio import CapacityLimiter, to_thread
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from fleetlake.dashboard.map_tiles import TilesUnreadable, read_map_tiles
from fleetlake.dashboard.open_snapshots import (
    MartMissing,
    OpenSnapshots,
    QueryTooLong,
    SnapshotGone,
)
from fleetlake.dashboard.page_shell import login_html, page_html, problem_html
from fleetlake.dashboard.panel_proof import panel_proof
from fleetlake.dashboard.panels import EXPORTED_ROWS, Panel, dashboard_pages, panel_at
from fleetlake.dashboard.parameters import typed
from fleetlake.dashboard.request_counts import METRICS_TYPE, CountedRequests, RequestCounts
from fleetlake.dashboard.result_formats import as_csv, as_json, as_parquet
from fleetlake.dashboard.step_request import LARGEST, is_from_this_page, step_in
from fleetlake.dashboard.web_access import COOKIE, HEALTH, STEPS, AccessControl, Token
from fleetlake.errors import FleetlakeError, LakeError, UsageError
from fleetlake.marts.finding_states import NewStep

AT_ONCE = 3
"""Queries that run at the same time; further ones wait, so that memory stays bounded."""

EXPORTS_AT_ONCE = 1
EXPORT_SECONDS = 60.0

KEPT_ANSWERS = 64
LARGEST_KEPT = 500_000
CHECK_SECONDS = 1.0
PING_SECONDS = 15.0

LONGEST_LOGIN = 2_000
"""Bytes of a form that logs in. Anyone may send one, so no more of it is read."""

LOGIN_SECONDS = 10.0
"""Time to send such a form."""

RecordStep = Callable[[NewStep], Iterable[tuple[Any, ...]]]
"""Records a step about findings in the lake, and returns its rows of STEP_COLUMNS."""

_STATUS: Mapping[type[FleetlakeError], int] = {
    TilesUnreadable: 503,
    UsageError: 400,
    MartMissing: 404,
    QueryTooLong: 503,
    LakeError: 503,
}
_EXPORTS: Mapping[str, tuple[Callable[..., bytes], str]] = {
    "csv": (as_csv, "text/csv; charset=utf-8"),
    "parquet": (as_parquet, "application/vnd.apache.parquet"),
}

_TILES_TYPE = "application/vnd.pmtiles"
_FILE_TYPES = ("text/csv", "application/vnd.apache.parquet", _TILES_TYPE)
"""Files are not compressed on the way: an export would need twice the memory, and the browser asks
for tiles by ranges of the file's own bytes."""


def create_dashboard(
    published: Path,
    *,
    token: SecretStr | None = None,
    tiles: Path | None = None,
    record: RecordStep | None = None,
) -> Starlette:
    """Return the application over a published folder; `token` guards it beyond this machine.

    `tiles` is a PMTiles file for the map. `record` records what readers do about findings; without
    it, the server is read-only.
    """
    guard = Token(token) if token else None
    dashboard = Dashboard(published, token=guard, tiles=tiles, record=record)
    app = Starlette(
        routes=[
            Route("/", lambda _: RedirectResponse("/now")),
            Route("/login", dashboard.login, methods=["GET", "POST"]),
            Route("/api/status", dashboard.status),
            Route("/api/tiles", dashboard.tiles),
            Route("/tiles.pmtiles", dashboard.tile_bytes),
            Route(STEPS, dashboard.take_step, methods=["POST"]),
            Route("/api/{page}/{panel}", dashboard.rows),
            Route("/events", dashboard.events),
            Route(HEALTH, dashboard.health),
            Route("/metrics", dashboard.metrics),
            Mount("/static", StaticFiles(directory=str(files("fleetlake.dashboard") / "static"))),
            Route("/{page}", dashboard.page),
        ],
        middleware=[
            Middleware(CountedRequests, counts=dashboard.counts),
            Middleware(AccessControl, token=dashboard.token, is_writable=record is not None),
            Middleware(
                GZipMiddleware,
                minimum_size=2_000,
                compresslevel=5,
                exclude_content_types=(*DEFAULT_EXCLUDED_CONTENT_TYPES, *_FILE_TYPES),
            ),
        ],
        lifespan=dashboard.lifespan,
    )
    app.state.dashboard = dashboard
    return app


class Dashboard:
    """The answers of the application, and what they share: open snapshots and kept answers."""

    def __init__(
        self,
        published: Path,
        *,
        token: Token | None,
        tiles: Path | None,
        record: RecordStep | None = None,
    ) -> None:
        self.token = token
        self.counts = RequestCounts()
        self._record = record
        self._steps = 0
        self._tile_file = tiles
        self.is_stopping = False
        self._snapshots = OpenSnapshots(published)
        self._kept: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._changed = asyncio.Event()
        self._limiter = CapacityLimiter(AT_ONCE)
        self._export_limiter = CapacityLimiter(EXPORTS_AT_ONCE)
        self._step_limiter = CapacityLimiter(1)

    @asynccontextmanager
    async def lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        """Watch for new snapshots while the application runs."""
        with suppress(FleetlakeError):  # the first answer waits for no import
            await to_thread.run_sync(self._shown, panel_at("now", "summary"), {}, "")
        watch = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watch.cancel()
            self._snapshots.close()

    def stop(self) -> None:
        """Let the streams of events end, so that the server can."""
        self.is_stopping = True
        self._changed.set()

    async def page(self, request: Request) -> Response:
        """Return a page without its rows."""
        page = dashboard_pages().get(request.path_params["page"])
        if page is None or not page.is_listed:
            what, remedy = "There is no such page.", "Go back to the start page."
            return HTMLResponse(problem_html(what, remedy), 404)
        given = request.query_params
        if page.under and not all(map(given.get, page.needs)):
            return RedirectResponse(f"/{page.under}?{urlencode(dict(given))}")
        return HTMLResponse(page_html(page, request.query_params), headers=_FRESH)

    async def login(self, request: Request) -> Response:
        """Ask for the token, and keep it in a cookie for this session of the browser."""
        if self.token is None:
            return RedirectResponse("/", 303)
        if request.method != "POST":
            return HTMLResponse(login_html(is_wrong=False), headers=_FRESH)
        form = await _beginning(request, LONGEST_LOGIN, seconds=LOGIN_SECONDS)
        [given, *_] = parse_qs(form).get("token", [""])
        if not self.token.is_right(given):
            return HTMLResponse(login_html(is_wrong=True), 403, headers=_FRESH)
        answer = RedirectResponse("/", 303)
        is_secure = request.headers.get("x-forwarded-proto", request.url.scheme) == "https"
        answer.set_cookie(
            COOKIE, self.token.cookie, httponly=True, samesite="strict", secure=is_secure
        )
        return answer

    async def status(self, _request: Request) -> Response:
        """Return which snapshot is shown, and how old its data is."""
        return await self._answer(self._status)

    async def health(self, _request: Request) -> Response:
        """Return 200 if a snapshot is shown; no more, because anyone may ask."""
        name = await to_thread.run_sync(self._snapshots.refresh)
        if name is None:
            return PlainTextResponse("There is no snapshot.\n", 503)
        return PlainTextResponse("ok\n")

    async def metrics(self, _request: Request) -> Response:
        """Return what Prometheus reads; it sends the token as a bearer."""

        def work() -> str:
            with suppress(LakeError), self._snapshots.lease() as snapshot:
                return self.counts.text(snapshot.described)
            return self.counts.text(None)

        return PlainTextResponse(await to_thread.run_sync(work), media_type=METRICS_TYPE)

    async def tiles(self, _request: Request) -> Response:
        """Return what the file of map tiles holds, null without one, or why it cannot be drawn."""
        file = self._tile_file
        if file is None:
            return _json(b"null")
        return await self._answer(lambda: _json(orjson.dumps(read_map_tiles(file))))

    async def tile_bytes(self, _request: Request) -> Response:
        """Return the file of map tiles, or the range of it that the browser asks for."""
        file = self._tile_file
        if file is None or not file.is_file():
            return _problem(UsageError("There are no map tiles."), 404)
        return FileResponse(file, media_type=_TILES_TYPE)

    async def rows(self, request: Request) -> Response:
        """Return the rows of a panel: as JSON, or as a file in the format of the name's end."""
        name, _, form = request.path_params["panel"].partition(".")
        try:
            panel = panel_at(request.path_params["page"], name)
        except LookupError:
            return _problem(UsageError("There is no such panel."), 404)
        if form and form not in _EXPORTS:
            return _problem(UsageError("Exports are .csv or .parquet."), 404)
        given = dict(request.query_params)
        if form:
            has_header = form == "csv" and given.pop("proof", "") == "header"
            work = partial(self._export, panel, given, form, has_header=has_header)
            return await self._answer(work, self._export_limiter)
        return await self._answer(lambda: self._shown(panel, given, request.url.query))

    async def take_step(self, request: Request) -> Response:
        """Record what a reader does about findings, and tell every open page."""
        record = self._record
        if record is None or not is_from_this_page(request.headers):
            return _problem(UsageError("Only the dashboard's own pages may send this."), 403)
        body = await _beginning(request, LARGEST + 1, seconds=LOGIN_SECONDS)

        def work() -> Response:
            self._snapshots.add_steps(record(step_in(body)))
            self._steps += 1
            return _json(b"{}")

        answer = await self._answer(work, self._step_limiter)
        self._wake()
        return answer

    async def events(self, _request: Request) -> Response:
        """Return a stream of events: the name of the snapshot now, and of each new one."""
        return StreamingResponse(self._news(), media_type="text/event-stream", headers=_FRESH)

    async def _answer(
        self, work: Callable[[], Response], limiter: CapacityLimiter | None = None
    ) -> Response:
        """Return what `work` gives, run in a thread, or the error as an answer.

        It runs again if its snapshot disappeared meanwhile: two newer ones exist by then.
        """
        try:
            try:
                return await to_thread.run_sync(work, limiter=limiter or self._limiter)
            except SnapshotGone:
                return await to_thread.run_sync(work, limiter=limiter or self._limiter)
        except FleetlakeError as error:
            return _problem(error, next(s for t, s in _STATUS.items() if isinstance(error, t)))

    def _status(self) -> Response:
        with self._snapshots.lease() as snapshot:
            told = snapshot.described
            document = {
                "snapshot": told.name,
                "published_at": int(told.published_at.timestamp() * 1000),
                "as_of": int(told.as_of.timestamp() * 1000),
                "is_coarse": told.is_coarse,
                "gaps": len(told.gaps),
                "stale": told.stale,
                "is_writable": self._record is not None,
                "steps": self._steps,
            }
        return _json(orjson.dumps(document))

    def _shown(self, panel: Panel, given: Mapping[str, str], query: str) -> Response:
        with self._snapshots.lease() as snapshot:
            key = (f"{snapshot.described.name} {self._steps}", f"{panel!r}?{query}")
            if (kept := self._kept.get(key)) is not None:
                return _json(kept)
            values = typed(given, as_of=snapshot.described.as_of)
            panel = panel.of_table(values.get("table"))
            sql, parameters = snapshot.statement(panel, values, rows=panel.limit + 1)
            with self.counts.query_seconds.time():
                found = snapshot.rows(sql, parameters)
            applied = panel.applied(values)
            more = {
                "snapshot": snapshot.described.name,
                "as_of": int(snapshot.described.as_of.timestamp() * 1000),
                "since": snapshot.since(panel.since) if panel.since else None,
                "proof": panel_proof(snapshot, panel),
                "is_cut": found.num_rows > panel.limit,
                "applied": applied,
                "ignored": [name for name in values if name not in {*applied, *panel.beside}],
            }
            document = as_json(panel, found.slice(0, panel.limit), more=more)
        self._keep(key, document)
        return _json(document)

    def _export(
        self, panel: Panel, given: Mapping[str, str], form: str, *, has_header: bool
    ) -> Response:
        with self._snapshots.lease() as snapshot:
            values = typed(given, as_of=snapshot.described.as_of)
            chosen = panel.of_table(values.get("table"))
            sql, parameters = snapshot.statement(chosen, values, rows=EXPORTED_ROWS)
            write, media_type = _EXPORTS[form]
            proof = panel_proof(snapshot, chosen)["in_words"]
            with (
                self.counts.query_seconds.time(),
                snapshot.batches(sql, parameters, seconds=EXPORT_SECONDS) as rows,
            ):
                content = write(rows, proof if has_header or form != "csv" else ())
            of = values.get("table", panel.name)
            name = f"{panel.page}-{of}-{snapshot.described.name[:15]}.{form}"
        pa.default_memory_pool().release_unused()
        said = "; ".join(proof).encode("ascii", "replace").decode()
        headers = {
            "Content-Disposition": f'attachment; filename="{name}"',
            "X-Fleetlake-Proof": said,
            **_FRESH,
        }
        return Response(content, media_type=media_type, headers=headers)

    def _keep(self, key: tuple[str, str], document: bytes) -> None:
        """Keep an answer for the next reader; the oldest of many is dropped."""
        if len(document) <= LARGEST_KEPT:
            self._kept[key] = document
            while len(self._kept) > KEPT_ANSWERS:
                self._kept.popitem(last=False)

    async def _news(self) -> AsyncIterator[str]:
        told: str | None = ""
        steps = self._steps
        while not self.is_stopping:
            changed = self._changed
            name = await to_thread.run_sync(self._snapshots.refresh)
            yield f"event: snapshot\ndata: {name or ''}\n\n" if name != told else ": still here\n\n"
            made = self._steps
            if steps != made:
                yield "event: findings\ndata:\n\n"
            told, steps = name, made
            await _first_of(changed, PING_SECONDS)

    async def _watch(self) -> None:
        """Look at the published link every second, and wake the streams when it moved."""
        told: str | None = None
        never = asyncio.Event()
        while not self.is_stopping:
            name = await to_thread.run_sync(self._snapshots.refresh)
            if name != told:
                told = name
                self._wake()
            await _first_of(never, CHECK_SECONDS)

    def _wake(self) -> None:
        """Let the streams of events tell what is new."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


async def _beginning(request: Request, most: int, *, seconds: float) -> str:
    """Return the first bytes of a request's body as text: at most `most`, of the first seconds."""
    body = b""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                body += part
                if len(body) >= most:
                    break
    return body[:most].decode(errors="replace")


async def _first_of(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, or until it is time."""
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return


def _json(document: bytes) -> Response:
    return Response(document, media_type="application/json", headers=_FRESH)


def _problem(error: FleetlakeError, status: int) -> Response:
    document = orjson.dumps({"what": error.what, "remedy": error.remedy})
    return Response(document, status, media_type="application/json", headers=_FRESH)


_FRESH = {"Cache-Control": "no-store"}
