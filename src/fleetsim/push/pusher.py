"""Pushes alerts as the simulated clock moves, and retries failed deliveries."""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import orjson

from fleetsim.alert_types import CODE
from fleetsim.blocks import Block
from fleetsim.faults import PushFaults
from fleetsim.ledger import Fields, RaisedAlert
from fleetsim.organisation import ROOT, ROW_OF_ACCOUNT
from fleetsim.push.outbox import (
    Delivery,
    DestinationState,
    Message,
    Outgoing,
    PushLog,
    has_listeners,
    messages,
    of_block,
    pushed_alert,
)
from fleetsim.push.sending import SIGNATURE_HEADER, Cut, HttpSender, Sender, send_and_cut, sign
from fleetsim.rules import DESTINATIONS, RULES, key_text
from fleetsim.simulated_clock import SimulatedClock
from fleetsim.units import DAY
from fleetsim.view import View
from fleetsim.wire_words import WireWords

_BATCH: Final = 512
"""Messages that are delivered, or shuffled, together if the order is not kept."""


@dataclass
class Pusher:
    """The push side of one simulation. Nothing is sent until `settle` is called.

    `view` returns what the root account sees now. `words` are the vendor's. `is_stopped` ends a
    running `settle` when the server must stop. `log` lists what was pushed.
    """

    clock: SimulatedClock
    view: Callable[[], View]
    send: Sender
    faults: PushFaults
    settled_until: int
    words: WireWords = field(default_factory=lambda: WireWords({}))
    is_stopped: bool = False

    def stop(self) -> None:
        """Stop a running `settle` after the current day."""
        self.is_stopped = True

    log: PushLog = field(default_factory=PushLog)
    _deliveries: dict[int, Delivery] = field(default_factory=dict)
    _waiting: list[tuple[int, int, Message]] = field(default_factory=list)
    _announced: set[int] = field(default_factory=set)
    _count: int = 0
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def settle(self) -> None:
        """Send everything due by now, in the order of simulated time.

        A long step is processed day by day, so that other requests run and a signal can stop it.
        """
        kept_alive = self.send.kept_alive() if isinstance(self.send, HttpSender) else nullcontext()
        async with self._lock, kept_alive:
            now = self.clock.now()
            while self.settled_until // DAY < now // DAY and not self.is_stopped:
                await self._settle_until((self.settled_until // DAY + 1) * DAY)
                await asyncio.sleep(0)
            if not self.is_stopped:
                await self._settle_until(now)

    async def _settle_until(self, until: int) -> None:
        """Send what became due in the rest of a day."""
        # A router that has since been unregistered was registered when its alerts were raised.
        view = replace(self.view(), retention=False)
        if has_listeners(view):
            self._expect(messages(view, self.settled_until, until, self._announced))
        self.settled_until = max(self.settled_until, until)
        await self._send_until(view, until)

    def delivery(self, number: int) -> Delivery:
        """Return the delivery state of a destination by its ledger number."""
        return self._deliveries.setdefault(number, Delivery())

    def resume(self, number: int) -> None:
        """Retry a destination from now on; an unreachable one keeps its queue."""
        self.delivery(number).retry_from(self.clock.now())

    def waiting(self) -> int:
        """Return how many messages wait for a retry."""
        return sum(len(delivery.queue) for delivery in self._deliveries.values())

    async def try_once(self, destination: Fields) -> str | None:
        """Send a test message; return None, or what went wrong."""
        body = orjson.dumps({"type": "test", "friendly_info": "Test of the push destination."})
        return await self._post(destination, body)

    def _expect(self, found: Iterable[Message]) -> None:
        for message in found:
            self._count += 1
            heapq.heappush(self._waiting, (message.due, self._count, message))

    async def _send_until(self, view: View, now: int) -> None:
        """Send messages and retries in the order in which they are due."""
        while not self.is_stopped:
            retry_at, number = self._next_retry()
            due = self._waiting[0][0] if self._waiting else now + 1
            if min(due, retry_at) > now:
                return
            if retry_at < due:
                await self._retry(view, number, retry_at)
            else:
                await self._send_due(view, min(now, retry_at))

    def _next_retry(self) -> tuple[int, int]:
        """Return the time and destination of the next retry; a far-future time if there is none."""
        waiting = [(d.retry_at, n) for n, d in self._deliveries.items() if d.retry_at is not None]
        return min(waiting, default=(2**62, 0))

    async def _send_due(self, view: View, until: int) -> None:
        """Send the next message, or several due by an instant if their order is not kept."""
        at_once, is_shuffled = self.faults.push_concurrency, self.faults.push_reorder
        most = _BATCH if at_once > 1 or is_shuffled else 1
        lanes: dict[int, deque[Outgoing]] = {}
        while self._waiting and self._waiting[0][0] <= until and most:
            most -= 1
            for number, outgoing in self._next_message(view):
                lanes.setdefault(number, deque()).append(outgoing)

        async def drain(number: int) -> None:
            while lanes[number] and not self.is_stopped:
                await self._deliver(view, number, lanes[number].popleft())

        for lane in lanes.values():
            if is_shuffled:
                self.faults.shuffle(lane)
        if at_once > 1:
            await asyncio.gather(*(drain(number) for number in lanes for _ in range(at_once)))
            return
        for number in lanes:
            await drain(number)

    def _next_message(self, view: View) -> list[tuple[int, Outgoing]]:
        """Take the next message; return it for each destination that is enabled.

        A summary contains all alerts of its rule due at that time.
        """
        due, _, message = heapq.heappop(self._waiting)
        alerts = [message.alert]
        if message.is_summary:
            alerts += self._rest_of_summary(message)
            rule = view.ledger.writes_to(RULES).created.get(message.rule)
            if rule is not None:
                rule["last_summary_ts"] = due
        shown = [pushed_alert(alert, self.faults.push_body) for alert in alerts]
        body = self.words.outgoing(orjson.dumps(shown if message.is_summary else shown[0]))
        found = []
        for number in message.destinations:
            destination = view.ledger.writes_to(DESTINATIONS).created.get(number)
            if destination is not None and self._accepts(number, destination):
                key, url = key_text(destination), destination["endpoint"]["url"]
                found.append((number, self.log.add(key, url, due, body, alerts)))
        return found

    def _accepts(self, number: int, destination: Fields) -> bool:
        """Return whether a destination gets messages, at once or after a retry."""
        state = self.delivery(number).state(destination)
        return state in (DestinationState.ACTIVE, DestinationState.UNREACHABLE)

    def _rest_of_summary(self, first: Message) -> list[Fields]:
        """Return the other alerts of a rule due at the same instant."""
        same: list[tuple[int, int, Message]] = []
        rest: list[tuple[int, int, Message]] = []
        for entry in self._waiting:
            is_same = (entry[0], entry[2].rule) == (first.due, first.rule)
            (same if is_same else rest).append(entry)
        self._waiting = rest
        heapq.heapify(self._waiting)
        return [entry[2].alert for entry in sorted(same, key=lambda entry: entry[1])]

    async def _deliver(self, view: View, number: int, outgoing: Outgoing) -> None:
        """Send a message to a destination, or queue it, or drop it, by the destination's state."""
        destination = view.ledger.writes_to(DESTINATIONS).created.get(number)
        if destination is None:
            return
        delivery = self.delivery(number)
        state = delivery.state(destination)
        if state is DestinationState.UNREACHABLE:
            delivery.queue.append(outgoing)
        if state is not DestinationState.ACTIVE:
            return
        error = await self._push(destination, outgoing)
        if error is None:
            return
        delivery.queue.append(outgoing)
        if delivery.retry_at is None:  # otherwise another delivery failed at the same time
            at = outgoing.entry.due
            self._note_failure(view, number, error, at)
            self._raise(view, "http_push_failure", destination, number, at)

    async def _retry(self, view: View, number: int, at: int) -> None:
        """Try an unreachable destination again: drain its queue, or wait longer, or give up."""
        created, delivery = view.ledger.writes_to(DESTINATIONS).created, self.delivery(number)
        while delivery.queue:
            destination = created.get(number)  # a client may have deleted or disabled it
            if (
                destination is None
                or delivery.state(destination) is not DestinationState.UNREACHABLE
            ):
                break
            tried = delivery.take(self.faults.push_concurrency)
            errors = await asyncio.gather(*(self._push(destination, one) for one in tried))
            failed = [one for one, error in zip(tried, errors, strict=True) if error is not None]
            if len(failed) < len(tried):
                delivery.attempts = 0  # the connection is re-established
            if failed:
                delivery.queue.extendleft(reversed(failed))
                self._note_failure(view, number, next(filter(None, errors)), at)
                return
        delivery.clear()

    def _note_failure(self, view: View, number: int, error: str, at: int) -> None:
        """Store the time and text of an error; suspend the destination after the last retry.

        A destination that was deleted during a push loses its queue.
        """
        destination = view.ledger.writes_to(DESTINATIONS).created.get(number)
        if destination is None:
            self._deliveries.pop(number, None)
            return
        destination |= {"last_error_at": at, "last_error_text": error, "updated_at": at}
        if self.delivery(number).fail(at):
            destination["suspended"] = True
            self._raise(view, "http_destination_suspended", destination, number, at)

    def _raise(self, view: View, name: str, destination: Fields, number: int, at: int) -> None:
        """Raise an alert about a failing destination, and announce it to the others."""
        row = ROW_OF_ACCOUNT.get(destination["account"], ROOT)
        alert = view.ledger.raise_alert(at, CODE[name], row)
        self._announced.add(alert.tail)
        for message in of_block(view, _alert_block(alert)):
            others = tuple(other for other in message.destinations if other != number)
            if others:
                self._expect([replace(message, destinations=others)])

    async def _push(self, destination: Fields, outgoing: Outgoing) -> str | None:
        """Send a message once, or twice if the fault `push_duplicate` happens."""
        error = await self._attempt(destination, outgoing)
        if error is None and self.faults.happens("push_duplicate"):
            await self._attempt(destination, outgoing)
        return error

    async def _attempt(self, destination: Fields, outgoing: Outgoing) -> str | None:
        outgoing.entry.attempts += 1
        cut = next((cut for cut in Cut if self.faults.happens(cut)), None)
        error = await self._post(destination, outgoing.body, cut)
        outgoing.entry.answered += error is None
        return error

    async def _post(self, destination: Fields, body: bytes, cut: Cut | None = None) -> str | None:
        signature = sign(body, destination["authentication"]["secret"])
        header = self.words.header(SIGNATURE_HEADER)
        headers = {"Content-Type": "application/json", header: signature}
        url = destination["endpoint"]["url"]
        try:
            if cut is None:
                return await self.send(url, body, headers)
            if isinstance(self.send, HttpSender):
                return await send_and_cut(url, body, headers, cut)
            if cut is not Cut.TRUNCATE:  # in process there is no connection to cut
                await self.send(url, body, headers)
        except Exception as error:  # noqa: BLE001 - one bad URL must not stop all pushes
            return f"{type(error).__name__}: {error}"
        return f"the connection was cut ({cut})"


def _alert_block(alert: RaisedAlert) -> Block:
    """Return a block of one account alert."""
    numbers = {"time": alert.at, "detected": alert.at, "account": alert.account}
    numbers |= {"router": -1, "kind": alert.kind, "slot": 0, "value": 0}
    arrays = {name: np.array([value]) for name, value in numbers.items()}
    return Block({**arrays, "tail": np.array([alert.tail], dtype=np.uint64)})
