"""The HTTP client against servers that answer, refuse, break off or say nothing."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from core_rl.errors import RunError
from core_rl.ports import free_port
from core_rl.serving.http import Client
from core_rl.serving.replica import ServerLostError


def asked(handler, work, **options):
    """What `work(client)` returns, with a server that answers every request by `handler`."""

    async def main():
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        runner = web.AppRunner(app, shutdown_timeout=0.0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        client = Client(f"http://127.0.0.1:{runner.addresses[0][1]}/", **options)
        try:
            return await work(client)
        finally:
            await client.close()
            await client.close()
            await runner.cleanup()

    return asyncio.run(main())


def answer(**what):
    async def handler(_):
        return web.Response(**what)

    return handler


def test_json_goes_there_and_back():
    """Posts and gets, over the connection of before; an empty answer is None."""
    ports = set()

    async def handler(request):
        ports.add(request.transport.get_extra_info("peername")[1])
        if request.path == "/nothing":
            return web.Response()
        body = await request.json() if request.can_read_body else None
        return web.json_response({"method": request.method, "path": request.path, "body": body})

    async def work(client):
        posted = await client.post("/a", {"ids": [1, 2], "x": 0.1})
        return posted, await client.get("/b"), await client.post("/nothing")

    assert asked(handler, work) == (
        {"method": "POST", "path": "/a", "body": {"ids": [1, 2], "x": 0.1}},
        {"method": "GET", "path": "/b", "body": None},
        None,
    )
    assert len(ports) == 1


def test_many_requests_are_in_flight_at_once():
    """Each of 200 waits until all have arrived."""
    arrived = []
    everyone = asyncio.Event()

    async def handler(request):
        arrived.append(request.path)
        if len(arrived) == 200:
            everyone.set()
        await everyone.wait()
        return web.json_response(request.path)

    async def work(client):
        return await asyncio.gather(*(client.post(f"/{number}") for number in range(200)))

    assert asked(handler, work) == [f"/{number}" for number in range(200)]


def test_the_key_is_sent_as_a_bearer_token():
    """And nothing where there is none."""

    async def handler(request):
        return web.json_response(request.headers.get("Authorization"))

    assert asked(handler, lambda client: client.get("/"), api_key="secret") == "Bearer secret"
    assert asked(handler, lambda client: client.get("/")) is None


def test_a_refused_connection_is_a_lost_server():
    """The message has the address."""

    async def main():
        client = Client(f"http://127.0.0.1:{free_port()}")
        try:
            await client.get("/health")
        finally:
            await client.close()

    with pytest.raises(ServerLostError, match=r"GET http://127\.0\.0\.1:\d+/health: ClientConnectorError: Cannot connect"):
        asyncio.run(main())


@pytest.mark.parametrize("begun", [False, True])
def test_a_server_without_an_answer_in_time_is_lost(begun):
    """Also where it has begun to answer; the time of one call goes before the client's."""
    end = asyncio.Event()

    async def handler(request):
        response = web.StreamResponse()
        if begun:
            await response.prepare(request)
        await end.wait()
        return response

    async def work(client):
        try:
            await client.touch("/slow", method="POST", timeout_s=0.05)
        finally:
            end.set()

    with pytest.raises(ServerLostError, match=r"POST .*/slow: no answer in 0\.05 s"):
        asked(handler, work, timeout_s=50.0)


def test_half_an_answer_is_a_lost_server():
    """The connection ends in the middle of the body, with or without its length having been said."""

    async def handler(request):
        response = web.StreamResponse()
        if request.path == "/length":
            response.content_length = 1000
        else:
            response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(b'{"tokens": [1, 2')
        request.transport.close()
        return response

    for path in ("/length", "/chunked"):
        with pytest.raises(ServerLostError, match=rf"POST .*{path}: ClientPayloadError"):
            asked(handler, lambda client, path=path: client.post(path))


def test_a_connection_that_ends_without_a_word_is_a_lost_server():
    """Before any answer."""

    async def handler(request):
        request.transport.close()
        return web.Response()

    with pytest.raises(ServerLostError, match="ServerDisconnectedError"):
        asked(handler, lambda client: client.post("/"))


@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_broken_server_is_lost(status):
    """Its words are in the message."""
    with pytest.raises(ServerLostError, match=rf"POST http://.*/generate: {status}: out of memory$"):
        asked(answer(status=status, text="out of memory"), lambda client: client.post("/generate"))


@pytest.mark.parametrize(
    ("status", "text", "words"),
    [
        (400, '{"error": {"message": "the prompt is too long", "code": 400}}', "the prompt is too long"),
        (400, '{"object": "error", "message": "the prompt is too long"}', "the prompt is too long"),
        (422, '{"detail": [{"loc": ["body", "n"], "msg": "must be above 0"}]}', r"\[\{'loc': .*'must be above 0'\}\]"),
        (404, "<html>no such page</html>", "<html>no such page</html>"),
        (401, '{"error": "Unauthorized"}', "Unauthorized"),
        (400, '"short"', "short"),
        (400, "x" * 1000, "x{300}"),
    ],
)
def test_what_every_server_would_refuse_is_an_error_of_the_run(status, text, words):
    """With the server's words, whatever form they have; trying another server would not help."""
    with pytest.raises(RunError, match=rf"POST http://.*/generate: {status}: {words}$") as error:
        asked(answer(status=status, text=text), lambda client: client.post("/generate"))
    assert not isinstance(error.value, ServerLostError)


@pytest.mark.parametrize("body", [b"<html>hello</html>", b'{"a": 1', b"\xff\xfe\xfa"])
def test_an_answer_that_is_no_json_is_a_lost_server(body):
    """Of a page, of half a text, and of no text at all."""
    with pytest.raises(ServerLostError, match=r"/generate: (the answer is not JSON|UnicodeDecodeError)"):
        asked(answer(body=body), lambda client: client.post("/generate"))


def test_health_may_be_in_any_words():
    """Servers say OK there; elsewhere an answer is JSON."""
    assert asked(answer(text="OK"), lambda client: client.touch("/health")) is None
    with pytest.raises(ServerLostError, match="the answer is not JSON: 'OK'"):
        asked(answer(text="OK"), lambda client: client.get("/health"))
