"""The log line of a request to the console names the token of its session."""

import json
from pathlib import Path

from tests.console.conftest import Operator
from tests.support.running import Running
from tests.support.seeding import fill, issue

NAME = 'ö "name"'


def test_a_request_of_a_session_is_logged_with_its_token(home: Path) -> None:
    fill(home)
    with Running(home, token=issue(home, NAME, "admin")) as running:
        operator = Operator(running.port).sign_in(running.token)
        asked = [
            ("page", operator.ask("GET", "/relayers", headers={"X-Request-Id": "page"}).status),
            ("refused", operator.ask("GET", "/relayers/none", headers={"X-Request-Id": "refused"}).status),
            ("form", operator.post("/tokens", {"name": ""}, X_Request_Id="form").status),
            ("asset", operator.ask("GET", "/assets/none", headers={"X-Request-Id": "asset"}).status),
            ("out", operator.post("/sign-out", X_Request_Id="out").status),
            ("after", operator.ask("GET", "/relayers", headers={"X-Request-Id": "after"}).status),
            ("api", running.ask("GET", "/api/v1/relayers", headers={"X-Request-Id": "api"}).status),
        ]
    lines = [json.loads(line) for line in running.log.splitlines()]
    tokens = {line["request_id"]: line["token"] for line in lines if line["event"] == "request"}
    assert [(name, status, tokens[name]) for name, status in asked] == [
        ("page", 200, NAME),
        ("refused", 404, NAME),
        ("form", 400, NAME),
        ("asset", 404, "-"),
        ("out", 303, NAME),
        ("after", 303, "-"),
        ("api", 200, NAME),
    ]
