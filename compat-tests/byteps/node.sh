#!/bin/sh
# One process of a BytePS job: node.sh job.py's arguments. DMLC_ROLE says what it is.
#
# Workers on one host would share /dev/shm/BytePS_ShM_<key> and overwrite each other: each gets a
# /dev/shm of its own (a mount namespace; as root, or where users may make namespaces).
set -eu
here=$(dirname "$0")
python=${BYTEPS_PYTHON:?}
case $DMLC_ROLE in
worker)
  flags=-m
  [ "$(id -u)" -eq 0 ] || flags=-mr
  # shellcheck disable=SC2016
  exec unshare "$flags" sh -c 'mount -t tmpfs -o size=1g tmpfs /dev/shm && exec "$@"' sh \
    "$python" -u "$here/job.py" "$@"
  ;;
*) exec "$python" -u -c 'import byteps.server' ;;
esac
