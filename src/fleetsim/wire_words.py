"""The vendor's words on the wire: the simulator itself has only those of the service contract.

Requests are translated before the application sees them, responses and pushes after it made them:
headers, alert types wherever they are, and the names of types in activity logs.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fleetsim.activity_types import OBJECT_TYPES
from fleetsim.alert_types import CONTRACT_ALERT_TYPES

TABLE: Final = "vendor_words"
ALTERNATE: Final = "alt_"


def read_vendor_words(path: Path) -> dict[str, str]:
    """Return the words in a TOML file, or in its table `[vendor_words]`.

    Raises: OSError, ValueError if the file cannot be read.
    """
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply") from None
    table = found.get(TABLE, found)
    return {str(name): str(word) for name, word in table.items()}


_STRING: Final = re.compile(rb'(?<!\\)"([^"\\]+)"(\s*:)?')
_TYPE_NAME: Final = re.compile(rb'(?<="type_name":")[^"\\]+(?=")')


class WireWords:
    """Translates bytes; a word without a translation stays as it is."""

    def __init__(self, words: Mapping[str, str]) -> None:
        self.words = dict(words)
        alerts = {a: b for a, b in words.items() if a in CONTRACT_ALERT_TYPES}
        objects = {a: b for a, b in words.items() if a in OBJECT_TYPES}
        self._prefix = words.get(ALTERNATE, ALTERNATE)
        self._out = _Translation(alerts, objects, ALTERNATE, self._prefix)
        back = {b: a for a, b in alerts.items()}
        self._in = _Translation(back, {b: a for a, b in objects.items()}, self._prefix, ALTERNATE)

    def header(self, name: str) -> str:
        """Return the vendor's name of a header."""
        return self.words.get(name, name)

    def outgoing(self, text: bytes) -> bytes:
        """Return JSON in the vendor's words."""
        return self._out.json(text)

    def incoming(self, scope: Scope) -> Scope:
        """Return a request whose headers and query are in the contract's words."""
        names = {
            theirs.lower().encode(): ours.lower().encode()
            for ours, theirs in self.words.items()
            if ours.startswith("X-")
        }
        # A header of the contract's name is not the vendor's.
        hidden = set(names.values()) - set(names)
        headers = [
            (names.get(name, name), value) for name, value in scope["headers"] if name not in hidden
        ]
        return {**scope, "headers": headers, "query_string": self._in.query(scope["query_string"])}

    def incoming_body(self, body: bytes) -> bytes:
        """Return a JSON body in the contract's words."""
        return self._in.json(body)


class _Translation:
    """From one kind of words to the other."""

    def __init__(
        self, alerts: Mapping[str, str], objects: Mapping[str, str], prefix: str, becomes: str
    ) -> None:
        self._alerts = {a.encode(): b.encode() for a, b in alerts.items()}
        self._objects = {a.encode(): b.encode() for a, b in objects.items()}
        self._prefix, self._becomes = prefix.encode(), becomes.encode()

    def json(self, text: bytes) -> bytes:
        """Return JSON whose strings are translated; of its keys, those that name a plan's alert."""
        text = _STRING.sub(self._string, text)
        if not self._objects:
            return text
        return _TYPE_NAME.sub(lambda found: self._objects.get(found[0], found[0]), text)

    def _string(self, found: re.Match[bytes]) -> bytes:
        new = self._alert(found[1])
        is_other_key = found[2] and not (new + found[1]).count(b"_overage")
        return found[0] if is_other_key else b'"%s"%s' % (new, found[2] or b"")

    def query(self, text: bytes) -> bytes:
        """Return a query whose values are translated."""
        return re.sub(
            rb"(?<=[=,C])[0-9A-Za-z_.:-]+(?=[,&%]|$)", lambda found: self._alert(found[0]), text
        )

    def _alert(self, name: bytes) -> bytes:
        if name.startswith(self._prefix):
            rest = name.removeprefix(self._prefix)
            return self._becomes + self._alerts.get(rest, rest)
        return self._alerts.get(name, name)


class InVendorWords:
    """ASGI middleware that serves an application in the vendor's words."""

    def __init__(self, app: ASGIApp, words: WireWords) -> None:
        self._app = app
        self._words = words

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Translate a request, and the response to it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start: Message = {}
        body = bytearray()

        async def receive_translated() -> Message:
            message = await receive()
            if message["type"] == "http.request" and message.get("body"):
                return {**message, "body": self._words.incoming_body(message["body"])}
            return message

        async def send_translated(message: Message) -> None:
            """Keep a response until it is whole, since its length may change."""
            if message["type"] == "http.response.start":
                start.update(message)
                return
            body.extend(message.get("body", b""))
            if message.get("more_body"):
                return
            translated = self._words.outgoing(bytes(body))
            longer = len(translated) - len(body)
            headers = [
                (name, b"%d" % (int(value) + longer) if name == b"content-length" else value)
                for name, value in start["headers"]
            ]
            await send({**start, "headers": headers})
            await send({"type": "http.response.body", "body": translated})

        await self._app(self._words.incoming(scope), receive_translated, send_translated)
