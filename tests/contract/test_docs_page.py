"""The page at /docs: it describes every operation, loads nothing and runs no script."""

import re
from html import unescape
from html.parser import HTMLParser

import pytest

from pages.openapi.contract import document
from pages.openapi.contract_schemas import MESSAGE, rpc_errors
from relaydeck.api.description import curl_line
from tests.support.running import Running

VOID = {"meta", "link", "br", "hr", "img"}


class Reader(HTMLParser):
    """Every element of a page; what is never closed is left on the stack."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.stack: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag


@pytest.fixture(scope="module")
def page(service: Running) -> str:
    answer = service.ask("GET", "/docs", token="")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    return answer.body.decode()


@pytest.fixture(scope="module")
def reader(page: str) -> Reader:
    return Reader(page)


def test_every_element_is_closed(reader: Reader) -> None:
    assert reader.stack == []


def test_every_operation_is_told_with_its_curl_line(page: str) -> None:
    text = unescape(page)
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            assert f'<article id="{operation["operationId"]}">' in page
            assert f"<code>{path}</code>" in text
            assert curl_line(method, path, operation) in text


def test_every_type_and_code_is_told(page: str) -> None:
    for name in document()["components"]["schemas"]:
        assert f'<article id="type-{name}">' in page
    for code in rpc_errors():
        assert f"<code>{code}</code>" in page


def test_every_message_is_told(page: str) -> None:
    text = unescape(page)
    for methods in document()["paths"].values():
        for operation in methods.values():
            for response in operation["responses"].values():
                for content in response["content"].values():
                    if MESSAGE in response:
                        assert f"“{content['example']['message']}”" in text


def test_nothing_is_loaded_from_elsewhere(reader: Reader) -> None:
    for tag, attributes in reader.elements:
        assert tag not in ("script", "iframe", "img", "object", "embed", "form"), tag
        for name in ("src", "href", "action", "srcset"):
            place = attributes.get(name, "#")
            assert place.startswith(("#", "data:,")) or place == "openapi.json", (tag, place)


def test_the_style_sheet_loads_nothing(page: str) -> None:
    assert not re.search(r"@import|url\(", page)


def test_no_element_carries_a_script_or_a_style(reader: Reader) -> None:
    for tag, attributes in reader.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], tag


def test_the_policy_allows_the_one_style_sheet_and_nothing_else(reader: Reader) -> None:
    policies = [a["content"] for tag, a in reader.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert len(policies) == 1
    rest = "img-src data:; base-uri 'none'; form-action 'none'"
    assert re.fullmatch(rf"default-src 'none'; style-src 'sha256-[\w+/=]{{44}}'; {rest}", policies[0])


def test_every_link_leads_somewhere(reader: Reader) -> None:
    places = {attributes["id"] for _, attributes in reader.elements if "id" in attributes}
    links = {attributes["href"] for tag, attributes in reader.elements if tag == "a"}
    assert {link.removeprefix("#") for link in links} - {"openapi.json"} <= places


def test_it_names_the_address_that_it_was_reached_at(page: str, service: Running) -> None:
    assert unescape(page).count(f'export RELAYDECK="http://127.0.0.1:{service.port}"') == 1


@pytest.mark.parametrize("host", ['"><script>', "relaydeck .example", "a" * 256])
def test_a_host_that_is_none_is_not_shown(service: Running, host: str) -> None:
    page = service.ask("GET", "/docs", token="", headers={"Host": host}).body.decode()
    assert 'export RELAYDECK="http://HOST:PORT"' in unescape(page)
    assert host not in page


def test_behind_a_proxy_with_tls_the_address_is_that_of_the_proxy(service: Running) -> None:
    headers = {"Host": "relayers.example", "X-Forwarded-Proto": "https"}
    page = service.ask("GET", "/docs", token="", headers=headers).body.decode()
    assert 'export RELAYDECK="https://relayers.example"' in unescape(page)


def test_the_token_that_it_creates_may_use_the_interface(page: str) -> None:
    assert 'export TOKEN="$(relaydeck token create my-client)"' in unescape(page)


def test_a_field_tells_what_the_contract_decides_and_what_a_ruling(page: str) -> None:
    told = re.search(r'id="type-RpcResponse".*?<code>id</code>.*?<p class="basis">(.*?)</p>', page, re.DOTALL)
    assert told is not None
    ruled = "types of the JSON-RPC <code>id</code>"
    assert (
        told[1] == f"Contract, section 4.5: presence, type. Ruling: type ({ruled}), value ({ruled}), meaning ({ruled})."
    )


@pytest.mark.parametrize("path", ["/docs", "/admin/v1/docs"])
def test_no_cache_shows_the_address_of_one_sender_to_others(service: Running, path: str) -> None:
    assert service.ask("GET", path, token="").headers["cache-control"] == "no-store"
