"""Pushed alerts: signed POSTs to customers' destinations, retried on the simulated clock."""

from fleetsim.push.pusher import Pusher
from fleetsim.push.sending import Sender, send_over_http, sign

__all__ = ["Pusher", "Sender", "send_over_http", "sign"]
