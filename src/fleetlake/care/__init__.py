"""What looks after a lake: checks and repair, backups, maintenance, thinning of snapshots."""
