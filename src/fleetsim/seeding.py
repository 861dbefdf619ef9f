"""The initial alert rules of a simulated account, so that its fleet raises alerts."""

from fleetsim.alert_types import ALERT_TYPES
from fleetsim.ledger import Fields, Ledger
from fleetsim.organisation import ACCOUNTS, ROOT
from fleetsim.rules import DESTINATIONS, RULES
from fleetsim.units import NEVER


def seed_rules(ledger: Ledger, started_at: int) -> None:
    """Add one rule for all alert types in the whole account tree, and a disabled destination."""
    stamp = {"account": ACCOUNTS[ROOT].id, "created_at": started_at, "updated_at": started_at}
    ledger.writes_to(DESTINATIONS).created[ledger.next_serial()] = {
        **stamp,
        "tail": ledger.next_tail(),
        "name": "Operations room",
        "endpoint": {"url": "https://hooks.meridian.example/alerts"},
        "authentication": {"secret": "not-a-real-secret"},
        "enabled": False,
        "suspended": False,
        "last_error_at": None,
        "last_error_text": None,
    }
    rule: Fields = {
        **stamp,
        "tail": ledger.next_tail(),
        "associated_accounts": [ACCOUNTS[ROOT].id],
        "associated_groups": [],
        "email_destinations": [],
        "filter_criteria": {"alert_type__in": list(ALERT_TYPES)},
        "http_destinations": [],
        "schedule": None,
        "settings": None,
        "last_summary_ts": None,
        "valid_from": started_at,
        "valid_to": NEVER,
    }
    ledger.writes_to(RULES).created[ledger.next_serial()] = rule
