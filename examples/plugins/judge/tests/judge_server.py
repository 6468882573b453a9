"""A server of chat completions with faults to order, in a thread of the test. Made of the standard library."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def said(text):
    """What an API answers when the judge says this."""
    return 200, {}, json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]})


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # the default of 5 makes the sixth connection at a time wait for a second


class JudgeServer:
    """`plan(number, body)` says what request `number` gets: (status, headers, text), or seconds to wait and then that."""

    def __init__(self, plan):
        self.plan = plan
        self.requests = []
        self.most_at_once = 0
        self._now = 0
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = outer._take(self.path, dict(self.headers), body)
                wait_s, (status, headers, text) = answer if len(answer) == 2 else (0.0, answer)
                time.sleep(wait_s)
                with outer._lock:
                    outer._now -= 1
                try:
                    self.send_response(status)
                    for name, value in {"Content-Length": str(len(text.encode())), **headers}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(text.encode())
                except OSError:  # the client did not wait
                    self.close_connection = True

            def log_message(self, *args):
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def _take(self, path, headers, body):
        with self._lock:
            number = len(self.requests)
            self.requests.append({"path": path, "headers": headers, "body": body})
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
        return self.plan(number, body)
