"""The bare proxy: the same server, which passes the question of an estimate on to the node, and nothing around it.

Run as `python -m bench.bare_proxy PORT NODE METHOD PARAMS`; PARAMS is the JSON of the recorded question.
"""

import sys
from typing import Any

import msgspec

from bench.bare import Application, Receive, Send, live, serve
from bench.estimates import NodeUrl, Question, bare_call

_JSON = [(b"content-type", b"application/json")]


def bare_proxy(node: NodeUrl, question: Question) -> Application:
    call = None

    async def application(scope: dict[str, Any], receive: Receive, send: Send) -> None:
        nonlocal call
        if scope["type"] == "lifespan":
            async with bare_call(node, question) as call:
                await live(receive, send)
            return
        body = (await receive())["body"]
        result = None
        if body and call is not None:  # an empty one asks whether the proxy has started
            result = await call(msgspec.json.decode(body)["id"])
        await send({"type": "http.response.start", "status": 200, "headers": _JSON})
        await send({"type": "http.response.body", "body": msgspec.json.encode({"jsonrpc": "2.0", "result": result})})

    return application


if __name__ == "__main__":
    port, node, method, params = sys.argv[1:]
    serve(int(port), lambda: bare_proxy(NodeUrl(node, 0), Question(method, msgspec.json.decode(params))))
