#!/bin/sh
# Prints the Python that .venv is made with: $PYTHON, else 3.11 (what CI runs), else any newer one.
set -eu
for name in ${PYTHON:-python3.11 python3.12 python3.13 python3.14 python3 python}; do
    # A version manager's shim may be on PATH for a version that is not active: only running it tells.
    if "$name" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
        echo "$name"
        exit 0
    fi
done
echo "core-rl needs Python 3.11 or newer with venv, and found none${PYTHON:+ in PYTHON=$PYTHON}." >&2
echo "Install one (Debian, Ubuntu: apt-get install python3 python3-venv), or name it: make PYTHON=/path/to/python3.11 ..." >&2
exit 1
