"""A server of the standard library with a child of its own, run by itself: python small_server.py PORT. Prints what it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'"hello"')


def main():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "grandchild"])
    print("pids", os.getpid(), child.pid, flush=True)
    print("colour", os.environ.get("COLOUR"), flush=True)
    print("usual", signal.getsignal(signal.SIGINT) is signal.default_int_handler, flush=True)
    HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()


if __name__ == "__main__":
    main()
