"""A worker in a process of its own that reads hostile texts, and for how long its event loop was held meanwhile.

Time is what the process computes: a busy machine that stops the process holds no event loop of its own.
"""

import asyncio
import json
import re
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from relaydeck.http.metric_counts import Metrics
from relaydeck.log import Log
from relaydeck.settings.model import read_settings
from relaydeck.worker.housekeeping import calm_garbage_collection
from relaydeck.worker.worker import Worker
from tests.support.hostile_texts import JSON, TOML, mixtures

_NETWORK = {"name": "n", "chain_id": "1", "native_symbol": "ETH", "rpc_urls[0].url": "https://node.example"}
_FORMS: dict[str, tuple[dict[str, str], str, int]] = {  # the field that contains a text in TOML, and the largest form
    "/console/apply": ({}, "file", 1_048_576),
    "/console/networks/new": (_NETWORK, "fee_tokens", 512 * 1024),
}
_BEAT_SECONDS = 0.001
Headers = list[tuple[bytes, bytes]]


class Heartbeat:
    """Beats in the event loop, and keeps the longest computing time between two beats."""

    def __init__(self) -> None:
        self._last, self.longest = time.process_time(), 0.0
        self._task = asyncio.get_running_loop().create_task(self._beat())

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_BEAT_SECONDS)
            now = time.process_time()
            self.longest, self._last = max(self.longest, now - self._last), now

    async def restart(self) -> None:
        await self.settle()
        self.longest = 0.0

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def settle(self) -> None:
        await asyncio.sleep(2 * _BEAT_SECONDS)


class Caller:
    def __init__(self, worker: Worker, token: str) -> None:
        self._worker, self._token = worker, token
        self._cookie = self._form_token = ""

    async def post_json(self, path: str, body: bytes) -> int:
        headers = [(b"authorization", f"Bearer {self._token}".encode()), (b"content-type", b"application/json")]
        return (await self._ask("POST", path, body, headers))[0]

    async def sign_in(self) -> None:
        _, headers, _ = await self._post_form("/console/sign-in", urlencode({"token": self._token}).encode())
        self._cookie = dict(headers)[b"set-cookie"].decode().partition(";")[0]
        page = (await self._ask("GET", "/console", b"", [(b"cookie", self._cookie.encode())]))[2]
        found = re.search(rb'name="form_token" value="([0-9a-f]{64})"', page)
        assert found
        self._form_token = found[1].decode()

    async def post_form(self, path: str, form: bytes) -> int:
        return (await self._post_form(path, form))[0]

    def form(self, path: str, text: str) -> bytes:
        """As much of the text as the form may contain."""
        fields, name, most = _FORMS[path]
        while len(form := urlencode(fields | {"form_token": self._form_token, name: text})) > most:
            text = text[: len(text) * 9 // 10]
        return form.encode()

    async def _post_form(self, path: str, form: bytes) -> tuple[int, Headers, bytes]:
        headers = [
            (b"content-type", b"application/x-www-form-urlencoded"),
            (b"sec-fetch-site", b"same-origin"),
            (b"cookie", self._cookie.encode()),
        ]
        return await self._ask("POST", path, form, headers)

    async def _ask(self, method: str, path: str, body: bytes, headers: Headers) -> tuple[int, Headers, bytes]:
        scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b""}
        headers = [*headers, (b"host", b"localhost"), (b"content-length", b"%d" % len(body))]
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self._worker.pipeline(
            scope | {"headers": headers, "client": ("127.0.0.1", 1), "scheme": "http"}, receive, send
        )
        return sent[0]["status"], sent[0]["headers"], b"".join(each["body"] for each in sent[1:])


async def main(form: str, size: int, count: int, metrics: Path, token: str) -> None:
    """Print one line for each text: its shape, the status of the answer and the seconds."""
    worker = Worker(read_settings(), Log(as_json=True), Metrics(metrics))
    calm_garbage_collection()
    caller, shapes = Caller(worker, token), TOML if form in _FORMS else JSON
    await caller.sign_in()
    for path in _FORMS:
        await caller.post_form(path, caller.form(path, ""))
    await caller.post_json("/admin/v1/apply", b"{}")
    heartbeat = Heartbeat()
    for shape, text in (shapes | mixtures(shapes, count, seed=1)).items():
        if form in _FORMS:
            post = partial(caller.post_form, form, caller.form(form, text(size)))
        elif form == "apply":
            body = f'{{"document":{{"relayers":{text(size)}}},"plan_only":true}}'
            post = partial(caller.post_json, "/admin/v1/apply", body.encode())
        else:
            post = partial(caller.post_json, form, text(size).encode())
        await heartbeat.restart()
        began = time.perf_counter()
        status = await post()
        taken = time.perf_counter() - began
        await heartbeat.settle()
        print(json.dumps([shape, status, heartbeat.longest, taken]), flush=True)
    await worker.stop()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]), sys.argv[5]))
