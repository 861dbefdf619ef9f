#!/bin/sh
# Run a command with a temporary PostgreSQL server:
#   tests/postgres.sh COMMAND...
# The server keeps its data in a temporary folder, listens on a Unix socket only, and its address
# is in FLEETLAKE_TEST_POSTGRES. PostgreSQL does not run as root, so root starts it as `postgres`.
set -eu

bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)
bin=${bin:-$(dirname "$(command -v initdb || echo /nowhere/initdb)")}
if [ ! -x "$bin/initdb" ]; then
  echo "PostgreSQL is not installed: apt-get install postgresql" >&2
  exit 1
fi
folder=$(mktemp -d)
as=
if [ "$(id -u)" = 0 ]; then
  chown postgres "$folder"
  as="runuser -u postgres --"
fi
stop() {
  $as "$bin/pg_ctl" -D "$folder/data" -m immediate stop >/dev/null 2>&1 || true
  rm -rf "$folder"
}
trap stop EXIT INT TERM
$as "$bin/initdb" -D "$folder/data" -A trust -U fleet -E UTF8 --locale=C >/dev/null
# Nothing here outlives the tests, so fsync is off. A measurement turns it on: FSYNC=on.
$as "$bin/pg_ctl" -D "$folder/data" -l "$folder/log" -w start >/dev/null \
  -o "-c listen_addresses='' -k $folder -c fsync=${FSYNC:-off} -c max_connections=200"
FLEETLAKE_TEST_POSTGRES="postgresql:///postgres?host=$folder&user=fleet" "$@"
