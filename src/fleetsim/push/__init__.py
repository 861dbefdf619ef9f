"""Pushed alerts: signed POSTs to customers' destinations, retried on the simulated clock."""

from fleetsim.faults import PushFaults
from fleetsim.push.pusher import Pusher
from fleetsim.push.sending import HttpSender, Sender, sign

__all__ = ["HttpSender", "PushFaults", "Pusher", "Sender", "sign"]
