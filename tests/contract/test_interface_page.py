"""The pages of the interface name every operation, message and code."""

from pathlib import Path

from pages.openapi.contract import document
from pages.openapi.contract_schemas import MESSAGE, rpc_errors

DOCS = Path(__file__).parents[2] / "docs"
PAGE = "\n".join((DOCS / name).read_text("utf-8") for name in ("interface.md", "interface-relayers.md", "http.md"))


def test_the_page_tells_every_operation_message_and_code() -> None:
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            assert f"`{method.upper()} {path}`" in PAGE or f"| `{path}` |" in PAGE
            for status, response in operation["responses"].items():
                for content in response["content"].values():
                    if MESSAGE in response:
                        message = content["example"]["message"].replace("sepolia-9", "`<relayer_id>`")
                        assert f"| {status} | {message} |" in PAGE
    for code in rpc_errors():
        assert f"| {code} |" in PAGE
