"""A made-up second service with other conventions: tickets about devices, and visits to them.

Its records stand in a member, its pages are linked in the header `Link`, its times are epoch
seconds, its key is a bearer token, and some of its errors come with status 200.
"""

from dataclasses import dataclass, field
from typing import Any

import httpx

TOKEN = "tickets-token"
ENDPOINT_FILE = """
[services.tickets]
root = "https://tickets.example/v1"
records = ["result", "items"]
error = ["error"]
page_size_parameter = "per_page"

[ticket_list]
about = "Tickets about devices."
api = "tickets"
path = "tickets"
kind = "history"
key = ["number"]
page_size = 3

[ticket_list.columns.number]
kind = "text"
meaning = "Number of the ticket."

[ticket_list.columns.router]
kind = "relation"
meaning = "Device that the ticket is about."

[ticket_list.columns.opened]
kind = "epoch_s"
meaning = "When the ticket was opened."

[ticket_visits]
about = "Visits to devices."
api = "tickets"
path = "visits"
kind = "append"
key = ["visit"]
event_time = "at"
window = ["from >", "to <="]
page_size = 3

[ticket_visits.columns.visit]
kind = "text"
meaning = "Identifies the visit."

[ticket_visits.columns.at]
kind = "epoch_ms"
meaning = "When the visit began."
"""


@dataclass
class Tickets(httpx.AsyncBaseTransport):
    """The second service, in front of the transport of the first."""

    first: httpx.AsyncBaseTransport
    tickets: list[dict[str, Any]] = field(default_factory=list)
    visits: list[dict[str, Any]] = field(default_factory=list)
    failures: int = 0
    status: int = 200
    is_filtering: bool = True
    asked: list[httpx.Request] = field(default_factory=list)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request to either service."""
        if request.url.host != "tickets.example":
            return await self.first.handle_async_request(request)
        self.asked.append(request)
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return httpx.Response(401, json={"error": "who are you?"})
        if self.status != httpx.codes.OK:
            return httpx.Response(self.status, json={"error": "no"})
        if self.failures:
            self.failures -= 1
            return httpx.Response(
                200, json={"error": {"text": f"{'busy ' * 34}{TOKEN}"}, "result": None}
            )
        query = request.url.params
        if request.url.path == "/v1/tickets":
            found = self.tickets
        else:
            since, until = float(query.get("from", 0)), float(query["to"])
            found = [
                visit
                for visit in self.visits
                if since < visit["at"] <= until or not self.is_filtering
            ]
        start, size = int(query.get("start", 0)), int(query["per_page"])
        rest = query.set("start", start + size)
        headers = {"Date": "Thu, 01 Jan 2099 00:00:00 GMT"}
        if start + size < len(found):
            headers["Link"] = f'</v1/any?{rest}>; REL="NEXT last", </v1/>; rel="first"'
        items = found[start : start + size]
        return httpx.Response(200, headers=headers, json={"result": {"items": items}})
