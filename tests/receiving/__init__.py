"""Tests of the receiver of pushed alerts and of its journal."""
