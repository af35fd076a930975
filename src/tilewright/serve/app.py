"""The application: addresses, the stream of changes, and replays."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from typing import TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tilewright.database.record_ids import looks_like_id
from tilewright.errors import DatabaseError, MissingPageError, TilewrightError
from tilewright.records import TuningRecord
from tilewright.report.model_notes import model_notes
from tilewright.report.model_page import model_section
from tilewright.report.page import STYLE
from tilewright.serve.access import PageAccess
from tilewright.serve.compare_page import compare_page
from tilewright.serve.guard import Guard, limited_body
from tilewright.serve.layout import page
from tilewright.serve.overview import overview
from tilewright.serve.record_page import record_page
from tilewright.serve.replay import ReplayService
from tilewright.serve.snapshot import Snapshot, Watched
from tilewright.serve.state import state_of
from tilewright.serve.stepwise import Decided
from tilewright.serve.task_page import task_page

_T = TypeVar("_T")
logger = logging.getLogger("tilewright.serve")
_LOOK_SECS = 0.5  # between two looks at the database
_PATIENCE = 4  # times as long as a look took, until the next one
_PING_SECS = 15.0
_MOST_STREAMS = 32
_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


class ReplayRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A record, and decisions instead of some of its own, by the number of their step."""

    record: str
    decisions: dict[int, Decided] = {}


@dataclass
class LivePage:
    """The state of the application."""

    watched: Watched
    replays: ReplayService = field(default_factory=ReplayService)
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _streams: int = 0

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Look at the database as long as the application runs."""
        await run_in_threadpool(self.replays.warm_up)
        looking = asyncio.create_task(self._look())
        try:
            yield
        finally:
            looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await looking
            await run_in_threadpool(self.replays.close)

    async def _look(self) -> None:
        clock = asyncio.get_running_loop().time
        seen: Snapshot | None = None
        complaint = ""
        while True:
            start = clock()
            try:
                made = await run_in_threadpool(self.watched.refresh)
                if made is not seen:
                    seen = made
                    async with self._changed:
                        self._changed.notify_all()
                complaint = ""
            except DatabaseError as error:  # a server that is away: once, in one line
                if str(error) != complaint:
                    complaint = str(error)
                    logger.warning("pages stay as they are: %s", complaint)
            except Exception:  # pages go on as they were; the next look may find it mended
                logger.exception("%s could not be looked at", self.watched.source)
            await asyncio.sleep(_PATIENCE * (clock() - start))
            await run_in_threadpool(self.watched.database.wait_for_news, _LOOK_SECS)

    # --- pages ----------------------------------------------------------------------------------

    async def overview(self, request: Request) -> Response:
        """All tasks, or some of very many."""
        number = _number(request.query_params.get("page", ""), 1)
        return await self._page(lambda snapshot: overview(snapshot, number))

    async def task(self, request: Request) -> Response:
        """One task."""
        name = request.path_params["name"]
        return await self._page(lambda snapshot: task_page(name, snapshot))

    async def compare(self, request: Request) -> Response:
        """Two runs."""
        numbers = [_number(request.query_params.get(name, ""), None) for name in ("a", "b")]
        return await self._page(lambda snapshot: compare_page(snapshot, *numbers))

    async def models(self, request: Request) -> Response:
        """The models that were tuned, with their timelines."""

        def render(snapshot: Snapshot) -> str:
            database = snapshot.tasks.database
            made = (model_section(note, database) for note in model_notes(database))
            sections = "".join(made) or "<p>No model was tuned with this database.</p>"
            return page("Models", f"<h1>Models</h1>{sections}", snapshot, "/models")

        return await self._page(render)

    async def record(self, request: Request) -> Response:
        """The explorer of one record."""
        name = request.path_params["name"]
        return await self._page(lambda made: record_page(self._found(name), made))

    def _found(self, name: str) -> TuningRecord:
        if not looks_like_id(name):
            raise MissingPageError(f"{name[:80]!r} is not the name of a record")
        return self.watched.snapshot().record(name)

    async def _page(self, render: Callable[[Snapshot], str]) -> Response:
        snapshot = await run_in_threadpool(self.watched.snapshot)
        try:
            return HTMLResponse(await run_in_threadpool(render, snapshot))
        except MissingPageError as error:
            text = page("Not found", f"<h1>Not found</h1><p>{escape(str(error))}</p>", snapshot)
            return HTMLResponse(text, 404)
        except DatabaseError as error:
            told = f"<h1>The database does not answer</h1><p>{escape(str(error))}</p>"
            return HTMLResponse(page("No answer", told, snapshot), 503)

    # --- for scripts ----------------------------------------------------------------------------

    async def state(self, request: Request) -> Response:
        """Tasks, causes, nodes and runs as JSON."""
        number = _number(request.query_params.get("page", ""), 1)
        state = await run_in_threadpool(lambda: state_of(self.watched.snapshot(), number))
        return Response(msgspec.json.encode(state), media_type="application/json")

    async def changes(self, request: Request) -> Response:
        """A stream of server-sent events: the number of each new snapshot."""
        if self._streams >= _MOST_STREAMS:
            return _complaint(f"{_MOST_STREAMS} pages are open already", 503)
        return StreamingResponse(self._versions(), media_type="text/event-stream")

    async def _versions(self) -> AsyncIterator[str]:
        self._streams += 1
        sent = -1
        try:
            while True:
                version = (await run_in_threadpool(self.watched.snapshot)).version
                is_new, sent = version != sent, version
                yield f"event: changed\ndata: {version}\n\n" if is_new else ": still here\n\n"
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._wait_for_change(sent), _PING_SECS)
        finally:
            self._streams -= 1

    async def _wait_for_change(self, seen: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self.watched.snapshot().version != seen)

    async def replay(self, request: Request) -> Response:
        """The steps of a record, with decisions changed."""
        if not request.headers.get("content-type", "").startswith("application/json"):
            return _complaint("a replay is asked for in JSON", 415)
        try:
            asked = msgspec.json.decode(await limited_body(request), type=ReplayRequest)
            record = await run_in_threadpool(self._found, asked.record)
            answer = await run_in_threadpool(self.replays.replay, record, asked.decisions)
        except msgspec.DecodeError as error:
            return _complaint(f"this is no replay: {error}", 400)
        except MissingPageError as error:
            return _complaint(str(error), 404)
        except TilewrightError as error:
            return _complaint(str(error), 503)
        return Response(answer, media_type="application/json")


def make_app(
    watched: Watched, access: PageAccess, replays: ReplayService | None = None
) -> Starlette:
    """The application for a database."""
    live = LivePage(watched, replays or ReplayService())
    routes = [
        Route("/", live.overview),
        Route("/task/{name}", live.task),
        Route("/record/{name}", live.record),
        Route("/compare", live.compare),
        Route("/models", live.models),
        Route("/api/state", live.state),
        Route("/api/changes", live.changes),
        Route("/api/replay", live.replay, methods=["POST"]),
        Route("/static/{name}", _static),
    ]
    guard = Middleware(Guard, access=access)
    return Starlette(routes=routes, middleware=[guard], lifespan=live.lifespan)


def _static(request: Request) -> Response:
    """A file of the package; the style sheet begins with that of reports."""
    name = request.path_params["name"]
    folder = resources.files("tilewright.serve") / "static"
    if name not in (file.name for file in folder.iterdir()):
        return _complaint("there is no such file", 404)
    text = (folder / name).read_text(encoding="utf-8")
    if name.endswith(".css"):
        text = f"{STYLE}\n{text}"
    return Response(text, media_type=_TYPES[name.rpartition(".")[2]])


def _complaint(text: str, status: int) -> Response:
    return JSONResponse({"error": text}, status)


def _number(text: str, otherwise: _T) -> int | _T:
    return int(text) if text.isdecimal() and len(text) < 10 and int(text) else otherwise
