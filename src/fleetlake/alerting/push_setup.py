"""Setting up pushed alerts: a destination with a secret, a test message, and a rule.

That is the order which the service contract recommends. Each step looks at what is there first, so
a setup that was stopped continues where it was, and a second setup changes nothing. It only adds:
it removes no type from a rule and no destination.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fleetlake.alerting.account_settings import AccountSettings, PushTest
from fleetlake.alerting.alert_rule import AlertRule, Schedule
from fleetlake.alerting.kept_secrets import KeptSecrets
from fleetlake.alerting.push_destinations import PushDestination
from fleetlake.errors import PushTestFailed
from fleetlake.text.wording import counted


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What a setup is to reach. Without accounts and groups, it covers the keys' own account."""

    url: str
    name: str
    types: Sequence[str]
    accounts: Sequence[int] = ()
    groups: Sequence[int] = ()
    has_test: bool = True
    has_new_secret: bool = False


@dataclass(frozen=True)
class SetupStep:
    """One step of a setup: what it does, or what it found done; `is_change` tells them apart."""

    what: str
    is_change: bool


@dataclass
class PushSetup:
    """One setup. With `is_dry_run` it only reads, and reports what it would do."""

    settings: AccountSettings
    store: KeptSecrets
    wanted: Wanted
    is_dry_run: bool = False
    on_step: Callable[[SetupStep], None] = lambda _: None
    steps: list[SetupStep] = field(default_factory=list)

    async def run(self) -> list[SetupStep]:
        """Do what is missing and return the steps.

        Raises: PushTestFailed before a rule is made if the receiver does not take a test message.
        """
        destination = await self._destination()
        if self.wanted.has_test:
            await self._test(destination)
        await self._rule(destination)
        return self.steps

    async def _destination(self) -> PushDestination | None:
        """Return the destination of the URL; None if a dry run would create it."""
        url = self.wanted.url
        kept = self.store.find(url)  # a store that cannot be used is reported before any change
        found = next((d for d in await self.settings.destinations() if d.url == url), None)
        if found is None:
            self._note(f"create the destination {url}, its secret in {self.store.place}")
            if self.is_dry_run:
                return None
            again = None if self.wanted.has_new_secret else kept
            secret = again or self.store.keep_new(url)
            return await self.settings.add_destination(
                name=self.wanted.name, url=url, secret=secret
            )
        fields = self._repairs(found)
        if not fields:
            self._note(f"destination {found.destination_id} exists", is_change=False)
        elif not self.is_dry_run:
            await self.settings.change_destination(found.destination_id, fields)
        return found

    def _repairs(self, found: PushDestination) -> dict[str, Any]:
        """Return what an existing destination needs to work, in the service's names."""
        fields: dict[str, Any] = {}
        if self.wanted.has_new_secret:
            self._note(f"give destination {found.destination_id} a new secret")
            secret = "" if self.is_dry_run else self.store.keep_new(found.url)
            fields["authentication"] = {"secret": secret}
        if not found.is_enabled:
            self._note(f"enable destination {found.destination_id}")
            fields["enabled"] = True
        if found.is_suspended:
            self._note(f"resume destination {found.destination_id}")
            fields["suspended"] = False
        return fields

    async def _test(self, destination: PushDestination | None) -> None:
        self._note("send a test message", is_change=False)
        if destination is None or self.is_dry_run:
            return
        result = await self.settings.test_destination(destination.destination_id)
        if not result.is_delivered:
            raise self._failure(destination, result)

    def _failure(self, destination: PushDestination, result: PushTest) -> PushTestFailed:
        remedy = (
            "Start `fleetlake receive` behind that address and run this command again: it "
            "continues from here. `--no-test` continues without a receiver."
        )
        if self.store.find(destination.url) is None:
            remedy += (
                f" The secret of this destination is not in {self.store.place}: if the receiver "
                "answers 403, add `--new-secret`."
            )
        return result.failure(destination.url, remedy=remedy)

    async def _rule(self, destination: PushDestination | None) -> None:
        """Make a rule for the types that no rule pushes to the destination yet."""
        accounts = tuple(self.wanted.accounts)
        if destination and destination.account_id and not (accounts or self.wanted.groups):
            accounts = (destination.account_id,)
        ours = [
            rule
            for rule in (await self.settings.rules() if destination else [])
            if destination and _pushes_at_once(rule, destination.destination_id)
        ]
        covering = [r for r in ours if {*accounts} <= {*r.account_ids}]
        covering = [r for r in covering if {*self.wanted.groups} <= {*r.group_ids}]
        missing = sorted({*self.wanted.types} - {name for rule in covering for name in rule.types})
        if not missing:
            covered = counted(len(self.wanted.types), "alert type")
            self._note(f"a rule pushes {covered} to it", is_change=False)
            return
        await self._cover(destination, missing, accounts, covering)

    async def _cover(
        self,
        destination: PushDestination | None,
        missing: list[str],
        accounts: tuple[int, ...],
        covering: list[AlertRule],
    ) -> None:
        """Add types to the rule of this destination alone, or create one."""
        covered = counted(len(missing), "alert type")
        own = next((rule for rule in covering if len(rule.destination_ids) == 1), None)
        if own:
            self._note(f"add {covered} to rule {own.rule_id}")
            types = sorted({*own.types, *missing})
            criteria = {**own.criteria, "alert_type__in": types}
            if not self.is_dry_run:
                await self.settings.change_rule(own.rule_id, {"filter_criteria": criteria})
            return
        self._note(f"create a rule that pushes {covered} to it: {', '.join(missing)}")
        if destination and not self.is_dry_run:
            await self.settings.add_rule(
                {
                    "schedule": None,
                    "filter_criteria": {"alert_type__in": missing},
                    "http_destinations": [destination.destination_id],
                    "associated_accounts": list(accounts),
                    "associated_groups": list(self.wanted.groups),
                }
            )

    def _note(self, what: str, *, is_change: bool = True) -> None:
        step = SetupStep(what, is_change)
        self.steps.append(step)
        self.on_step(step)


def _pushes_at_once(rule: AlertRule, destination_id: str) -> bool:
    return destination_id in rule.destination_ids and rule.schedule == Schedule.NONE
