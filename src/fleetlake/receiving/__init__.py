"""Pushed alerts: received and checked, kept in a journal, and brought into the lake."""
