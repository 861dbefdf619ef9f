"""Draws requests from a seed. Later requests reuse ids and links of earlier responses."""

import json
import random
from typing import Any
from urllib.parse import quote, urlencode

from fleetsim.definition import Resource
from fleetsim.resources import RESOURCES
from fleetsim.v3.collections import COLLECTIONS
from tests.support import odd_values as odd
from tests.support.asgi import Answer, Request
from tests.support.service import BEARER, JSON_API, keys

JSON_TYPES = ("application/json", JSON_API)


class Fuzzer:
    """Draws requests from a seed; later ones reuse ids and links of earlier responses."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.keys = {"routers": ["1000003"], "accounts": ["10157"], "net_devices": ["5000011"]}
        self.links: list[str] = []

    def request(self) -> Request:
        """Return the next request."""
        draw = self.random.random()
        if self.links and draw < 0.1:
            return self._v2("GET", self.random.choice(self.links[-50:]).encode())
        if draw < 0.55:
            return self._read()
        if draw < 0.8:
            return self.write()
        if draw < 0.92:
            return self._v3()
        return self._control()

    def learn(self, request: Request, answer: Answer) -> None:
        """Record ids and links of a response."""
        if answer.status not in (200, 201) or answer.head.get("content-type") not in JSON_TYPES:
            return
        found = answer.json()
        parts = request.target.partition(b"?")[0].decode("latin-1").strip("/").split("/")
        records = found.get("data", found)
        for record in records[:5] if isinstance(records, list) else [records]:
            for name in ("destination_config_id", "alert_config_id", "id", "created_at_timeuuid"):
                if isinstance(record, dict) and isinstance(record.get(name), str):
                    known = self.keys.setdefault(parts[-1] if len(parts) > 2 else "", [])
                    known[:] = [*known[-20:], record[name]]
        link = (found.get("meta") or {}).get("next")
        if link:
            self.links = [*self.links[-50:], "/" + link.split("/", 3)[3]]

    def _value(self) -> str:
        if self.random.random() < 0.3:
            return self._key(self.random.choice(list(self.keys)))
        return self.random.choice(odd.VALUES)

    def _part(self, resource: str) -> str:
        """Return a part of a path: an id of a resource, or an arbitrary value."""
        return quote(self._key(resource) if self.random.random() < 0.6 else self._value(), safe="")

    def _key(self, resource: str) -> str:
        """Return an id of a resource from an earlier response, if there is one."""
        return self.random.choice(self.keys.get(resource, odd.VALUES))

    def _header(self) -> tuple[tuple[bytes, bytes], ...]:
        role = "admin" if self.random.random() < 0.85 else self.random.choice(odd.ROLES)
        sent = keys(role) if role else {}
        pairs = [(name.lower().encode(), value.encode()) for name, value in sent.items()]
        host: bytes | None = b"service.test"
        if self.random.random() < 0.1:
            host = self.random.choice((b"127.0.0.1:8700", b"[", b"", b'"\xff', None))
        return (*pairs, *(() if host is None else ((b"host", host),)))

    def _v2(self, method: str, target: bytes, body: bytes = b"") -> Request:
        return Request(method, target, self._header(), body)

    def _name(self) -> str:
        if self.random.random() < 0.02:
            return self._value()
        return self.random.choice(odd.LISTED if self.random.random() < 0.95 else list(RESOURCES))

    def _read(self) -> Request:
        name = self._name()
        method = "GET" if self.random.random() < 0.9 else self.random.choice(odd.METHODS)
        path = f"/api/v2/{quote(name, safe='')}"
        if self.random.random() < 0.15:
            path += f"/{self._part(name)}"
        path += "/" if self.random.random() < 0.97 else ""
        query = self._query(RESOURCES.get(name, RESOURCES["routers"]))
        return self._v2(method, f"{path}?{query}".encode() if query else path.encode())

    def _query(self, resource: Resource) -> str:
        pairs = []
        if resource.one_of and self.random.random() < 0.9:
            devices = "net_devices" if "net_device" in resource.one_of[0] else "routers"
            device = self._key(devices) if self.random.random() < 0.8 else self._value()
            pairs.append((self.random.choice(resource.one_of), device))
        for _ in range(self.random.choice((0, 0, 1, 1, 1, 2, 3)) if resource.columns else 0):
            column = self.random.choice(resource.columns)
            allowed = ["" if op == "exact" else f"__{op}" for op in sorted(column.ops)] or [""]
            operator = self.random.choice(allowed if self.random.random() < 0.8 else odd.OPERATORS)
            pairs.append((column.name + operator, self._value()))
        if self.random.random() < 0.3:
            pairs.append((self.random.choice(odd.SPECIAL), self._value()))
        if self.random.random() < 0.15 and resource.order_by:
            pairs.append(("order_by", self.random.choice(("", "-")) + resource.order_by[0]))
        if self.random.random() < 0.1 and resource.expands:
            pairs.append(("expand", ",".join(resource.expands)))
        if self.random.random() < 0.05:
            return self.random.choice(
                ("%", "%ff=%fe", "&&&", "=", "limit", "limit=1&limit=2", "a=b;c=d")
            )
        return urlencode(pairs)

    def _body(self, resource: str) -> bytes:
        draw = self.random.random()
        if draw < 0.1:
            return self.random.choice(odd.MALFORMED)
        body = {
            name: self._related(name, value)
            for name, value in odd.GOOD_BODIES.get(resource, {}).items()
            if draw > 0.7 or self.random.random() < 0.6
        }
        if draw < 0.5:
            for _ in range(self.random.choice((1, 1, 2))):
                name = self.random.choice(
                    [*body] if body and self.random.random() < 0.9 else odd.FIELDS
                )
                body[name] = self.random.choice(odd.JSON_VALUES)
        return json.dumps(body).encode("utf-8", "surrogatepass")

    def _related(self, name: str, value: Any) -> Any:
        """Return a member that names a record of an earlier response, or the plain value."""
        if name == "endpoint":
            return {"url": f"http://receiver.test/{self.random.randrange(50)}"}
        if name not in odd.RELATED or self.random.random() < 0.3:
            return value
        key = self._key(odd.RELATED[name])
        return [key] if isinstance(value, list) else key

    def write(self) -> Request:
        """Return a write; most of them are valid."""
        method, name = self.random.choice(odd.WRITES)
        if method == "DELETE" and self.random.random() < 0.5:
            method, name = "POST", "alert_push_destinations"
        if self.random.random() < 0.1:
            method = self.random.choice(odd.METHODS)
        path = f"/api/v2/{name}/"
        if method != "POST" or self.random.random() < 0.05:
            key = self._value() if self.random.random() < 0.1 else self._key(name)
            path += f"{quote(key, safe='')}/"
        return self._v2(method, path.encode(), b"" if method == "GET" else self._body(name))

    def _v3(self) -> Request:
        method = self.random.choice(("GET", "GET", "POST", "PATCH", "DELETE"))
        method = method if self.random.random() < 0.9 else self.random.choice(odd.METHODS)
        path = f"/api/v3/{self.random.choice(('', 'beta/', 'commerce/'))}"
        path += self.random.choice(
            (*COLLECTIONS, "users", "users", "users", quote(self._value(), safe=""))
        )
        if method not in ("GET", "POST") or self.random.random() < 0.2:
            path += f"/{self._part('users')}"
        names = ("page[size]", "page[after]", "filter[email]", "filter[name]", "filter[")
        pairs = [
            (self.random.choice(names), self._value()) for _ in range(self.random.choice((0, 1, 2)))
        ]
        target = f"{path}?{urlencode(pairs)}" if pairs else path
        headers = {**BEARER, "Content-Type": JSON_API}
        if self.random.random() < 0.1:
            del headers[self.random.choice(list(headers))]
        attributes = {
            name: self.random.choice(odd.JSON_VALUES) if self.random.random() < 0.2 else good
            for name, good in odd.V3_USER.items()
            if self.random.random() < 0.7
        }
        body = json.dumps({"data": {"attributes": attributes}}).encode()
        if self.random.random() < 0.2:
            body = self.random.choice(odd.MALFORMED)
        pairs_sent = tuple(
            (name.lower().encode(), value.encode()) for name, value in headers.items()
        )
        return Request(method, target.encode(), pairs_sent, b"" if method == "GET" else body)

    def _control(self) -> Request:
        draw = self.random.random()
        if draw < 0.35:
            names = (
                *RESOURCES,
                "users_v3",
                "deletions",
                "outages",
                "trips",
                "battery_life",
                "interface_spans",
                "router_spans",
                "registrations",
                quote(self._value(), safe=""),
            )
            pairs = [(self.random.choice(("until", "device")), self._value())]
            pairs += [("device", "1000003")] if self.random.random() < 0.5 else []
            return Request(
                "GET", f"/sim/truth/{self.random.choice(names)}?{urlencode(pairs)}".encode()
            )
        if draw < 0.5:
            return Request(self.random.choice(odd.METHODS), b"/sim/state")
        if draw < 0.65:
            step = self.random.choice(
                (0, 1, 60, 600, 3600, 40000, -1, "x", None, 1e308, 10**30, True, [], {})
            )
            return Request(
                "POST", b"/sim/clock", (), json.dumps({"advance_seconds": step}).encode()
            )
        if draw < 0.8:
            name = self.random.choice(
                ("scenario", "limit_per_minute", "status_500", "latency_ms", "x")
            )
            value = self.random.choice(
                (None, [], {}, "nonsense", "x", -1, True, 1e308, odd.nested(300))
            )
            if name == "limit_per_minute" and value is True:
                value = "x"
            return Request("PUT", b"/sim/faults", (), json.dumps({name: value}).encode())
        target = self.random.choice(
            (b"/", b"*", b"//", b"/sim", b"/sim/", b"/sim/clock", b"/%00", b"/api", b"/%0a")
        )
        return Request(
            self.random.choice(odd.METHODS), target, (), self.random.choice(odd.MALFORMED)
        )
