"""The OpenAPI document as something to hold answers against: closed, so that nothing undocumented passes."""

import copy
from typing import Any

import jsonschema_rs

from pages.openapi.contract_schemas import MESSAGE
from tests.support.running import Answer

Json = dict[str, Any]

# What the HTTP server adds to every answer by itself.
TRANSPORT = {"content-type", "content-length", "cache-control", "server", "date"}


def closed(schema: Any) -> Any:
    """A copy in which every object has exactly the fields that are written down."""
    copied = copy.deepcopy(schema)
    _close(copied)
    return copied


def _close(node: Any) -> None:
    if isinstance(node, list):
        for each in node:
            _close(each)
    if isinstance(node, dict):
        if node.get("type") == "object" and "properties" in node:
            node.setdefault("additionalProperties", False)
        for each in node.values():
            _close(each)


class Promises:
    def __init__(self, document: Json) -> None:
        self.document = document
        self._components = closed(document["components"])

    def operation(self, method: str, path: str) -> Json:
        found: Json = self.document["paths"][path][method.lower()]
        return found

    def validator(self, schema: Json) -> jsonschema_rs.Draft202012Validator:
        return jsonschema_rs.Draft202012Validator({"components": self._components, "allOf": [closed(schema)]})

    def kept(self, answer: Answer, responses: Json) -> str:
        """What an answer breaks of the documented responses; empty when nothing."""
        response = responses.get(str(answer.status))
        if response is None:
            return f"status {answer.status} is not documented"
        return self.kept_by(answer, response)

    def kept_by(self, answer: Answer, response: Json) -> str:
        documented = {name.lower(): header for name, header in response["headers"].items()}
        if undocumented := answer.headers.keys() - TRANSPORT - documented.keys():
            return f"headers {undocumented} are not documented"
        if missing := {name for name, each in documented.items() if each["required"]} - answer.headers.keys():
            return f"headers {missing} are missing"
        media_type = answer.headers["content-type"].split(";")[0]
        if media_type not in response["content"]:
            return f"content type {media_type} is not documented"
        schema = response["content"][media_type]["schema"]
        body = answer.json if media_type == "application/json" else answer.body.decode()
        errors = list(self.validator(schema).iter_errors(body))
        if MESSAGE in response:
            errors += self.validator(response[MESSAGE]).iter_errors(answer.json.get("message"))
        return f"{errors[0].message} in {answer.body!r}" if errors else ""
