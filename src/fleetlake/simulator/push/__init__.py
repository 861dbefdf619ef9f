"""Pushed alerts: signed POSTs to customers' destinations, retried on the simulated clock."""

from fleetlake.simulator.push.pusher import Pusher
from fleetlake.simulator.push.sending import Sender, send_over_http, sign

__all__ = ["Pusher", "Sender", "send_over_http", "sign"]
