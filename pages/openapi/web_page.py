"""The OpenAPI document as an HTML page, without scripts or external resources."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from pages.openapi.admin_schemas import PLACE, Json
from pages.openapi.contract_schemas import CODES, HEADERS, MESSAGE
from relaydeck.api.description import PLACEHOLDER
from relaydeck.basis import in_words
from relaydeck.fields import BASIS

_SOURCES = ("contract", "ruling")
_CODE = re.compile(r"`([^`]+)`")
_COMMON = [(name, HEADERS[name]) for name in ("X-Request-Id", "Relaydeck-Reason")]
_TOKEN_COMMAND = re.compile(r"`(relaydeck token create) NAME([^`]*)`")
_PARAMETER = re.compile(r"\{(\w+)\}")


def page(document: Json) -> str:
    style = Path(__file__).with_name("docs.css").read_text("utf-8")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(_policy(style))}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{escape(document["info"]["title"])}: the interface</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<div class="layout">
{_header(document["info"])}
{_navigation(document)}
<main>
{_beginning(document["components"]["securitySchemes"]["bearer"])}
{_operations(document)}
{_types(document["components"]["schemas"])}
</main>
<footer>Generated from <a href="openapi.json">openapi.json</a>.</footer>
</div>
</body>
</html>
"""


def _policy(style: str) -> str:
    """Allows only the style sheet in the page, by its digest."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"


def _header(info: Json) -> str:
    title = f"<h1>{escape(info['title'])} <small>{escape(info['version'])}</small></h1>"
    return f"<header>\n{title}\n{_prose(info['description'])}\n</header>"


def _prose(text: str) -> str:
    """Renders paragraphs, lists of `- ` lines and `code`: all the markup that our texts use."""
    parts = []
    for part in text.split("\n\n"):
        if part.startswith("- "):
            items = "".join(f"<li>{_inline(line[2:])}</li>" for line in part.split("\n"))
            parts.append(f"<ul>{items}</ul>")
        else:
            parts.append(f"<p>{_inline(part)}</p>")
    return "\n".join(parts)


def _inline(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text))


def _beginning(bearer: Json) -> str:
    """What applies to every operation."""
    create, kind = _TOKEN_COMMAND.findall(bearer["description"])[0]
    lines = f'export RELAYDECK="{PLACEHOLDER}"\nexport TOKEN="$({create} my-client{kind})"'
    headers = (
        _row(name, "", {"description": text, BASIS: {"header": in_words(words)}}) for name, (text, words) in _COMMON
    )
    return "\n".join(
        [
            '<section id="begin">\n<h2>Before you begin</h2>',
            f"<p>{_inline(bearer['description'])}</p>{_basis(bearer)}",
            f"<pre><code>{escape(lines)}</code></pre>",
            _section("Headers of every response, and of every error", headers),
            "</section>",
        ]
    )


def _badge(described: Json) -> str:
    """The two sources, those that some part rests on."""
    told = " ".join(described.get(BASIS, {}).values())
    return " ".join(f'<span class="badge {source}">{source}</span>' for source in _SOURCES if source in told)


def _basis(described: Json) -> str:
    """What each part rests on: the parts that the contract decides by its sections, then the rulings."""
    shown: dict[str, list[str]] = {}
    ruled: list[str] = []
    for part, told in described.get(BASIS, {}).items():
        for words in told.split("; "):
            source, _, item = words.partition(": ")
            if item:
                ruled.append(f"{part} ({_inline(item)})")
            else:
                shown.setdefault(source, []).append(part)
    sentences = [f"{source.capitalize()}: {', '.join(parts)}." for source, parts in shown.items()]
    sentences += [f"Ruling: {', '.join(ruled)}."] if ruled else []
    return f'<p class="basis">{" ".join(sentences)}</p>' if sentences else ""


def _by_tag(document: Json) -> Iterator[tuple[Json, list[tuple[str, str, Json]]]]:
    every = [
        (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    for tag in document["tags"]:
        yield tag, [each for each in every if tag["name"] in each[2]["tags"]]


def _navigation(document: Json) -> str:
    groups = ['<li><a href="#begin">Before you begin</a></li>']
    for tag, operations in _by_tag(document):
        links = "".join(_link(each["operationId"], each["summary"]) for _, _, each in operations)
        groups.append(f'<li><a href="#{tag["name"]}">{tag["name"].capitalize()}</a><ul>{links}</ul></li>')
    groups.append('<li><a href="#types">Types</a></li>')
    return f'<nav aria-label="Contents"><ul>{"".join(groups)}</ul></nav>'


def _link(place: str, text: str) -> str:
    return f'<li><a href="#{place}">{escape(text)}</a></li>'


def _operations(document: Json) -> str:
    parts = []
    for tag, operations in _by_tag(document):
        parts.append(f'<section id="{tag["name"]}">\n<h2>{tag["name"].capitalize()}</h2>')
        parts.append(_prose(tag["description"]))
        parts += [_operation(*each, document["components"]["schemas"]) for each in operations]
        parts.append("</section>")
    return "\n".join(parts)


def _operation(method: str, path: str, operation: Json, schemas: dict[str, Json]) -> str:
    return "\n".join(
        [
            f'<article id="{operation["operationId"]}">',
            f"<h3>{escape(operation['summary'])}</h3>",
            f'<p class="address"><code class="method">{method.upper()}</code> <code>{escape(path)}</code>'
            f" {_badge(operation)}</p>{_basis(operation)}",
            _prose(operation["description"]) if "description" in operation else "",
            _credentials(operation),
            _section("Parameters", map(_parameter, operation.get("parameters", []))),
            _request(operation, schemas),
            _example(method, path, operation),
            _answered(operation, schemas),
            _section("Responses", (_answer(*each) for each in operation["responses"].items())),
            "</article>",
        ]
    )


def _credentials(operation: Json) -> str:
    kinds = operation.get("x-relaydeck-credentials")
    if kinds is None:
        return ""
    return f'<p class="quiet">Credentials: {_inline(", ".join(f"`{kind}`" for kind in kinds))}</p>'


def _section(title: str, rows: Iterator[str]) -> str:
    content = "".join(rows)
    return f"<h4>{title}</h4>\n<dl>{content}</dl>" if content else ""


def _row(name: str, kind: str, described: Json, more: str = "") -> str:
    text = _inline(described.get("description", ""))
    return (
        f'<div><dt><code>{escape(name)}</code> {_badge(described)} <span class="kind">{kind}</span></dt>'
        f"<dd>{text}{more}{_basis(described)}</dd></div>\n"
    )


def _parameter(parameter: Json) -> str:
    needed = "required" if parameter.get("required") else "optional"
    return _row(parameter["name"], f"{_kind(parameter['schema'])}, {needed}", parameter)


def _request(operation: Json, schemas: dict[str, Json]) -> str:
    if "requestBody" not in operation:
        return ""
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    named = schemas[_name(schema)]
    if "discriminator" not in named:
        return f"<h4>Body: {_kind(schema)}</h4>\n{_fields(named)}"
    kinds = named["discriminator"]["mapping"].items()
    choices = [(kind, schemas[place.removeprefix(PLACE)]) for kind, place in kinds]
    folded = "".join(_folded_choice(kind, choice, schemas) for kind, choice in choices)
    return f"<h4>Body: {_kind(schema)}</h4>\n{_fields(_without_choice(choices[0][1]))}\n{folded}"


def _without_choice(schema: Json) -> Json:
    """The fields that all shapes of a choice have in common."""
    fields = {
        name: {k: v for k, v in field.items() if k not in ("enum", "$ref")}
        for name, field in schema["properties"].items()
    }
    fields["type"]["type"], fields["config"]["type"] = "string", "object"
    return schema | {"properties": fields}


def _folded_choice(kind: str, choice: Json, schemas: dict[str, Json]) -> str:
    config = schemas[_name(choice["properties"]["config"])]
    return f"<details><summary><code>config</code> of <code>{kind}</code></summary>{_fields(config)}</details>"


def _answered(operation: Json, schemas: dict[str, Json]) -> str:
    """The fields of the data of a success, collapsed. The envelope is the same everywhere."""
    schema = next(iter(operation["responses"].values()))["content"].get("application/json", {}).get("schema", {})
    inner = schemas[_name(schema)]["properties"].get("data", schema) if "$ref" in schema else schema
    resource = inner.get("items", inner)
    if "$ref" not in resource:
        return ""
    fields = _fields(schemas[_name(resource)])
    return f"<details><summary>Fields of {_name(resource)}</summary>{fields}</details>"


def _name(schema: Json) -> str:
    name: str = schema["$ref"].removeprefix(PLACE)
    return name


def _example(method: str, path: str, operation: Json) -> str:
    answer = next(iter(operation["responses"].values()))
    shown = _first_example(answer["content"].get("application/json", {}))
    curl = f"<div><h4>Try it</h4><pre><code>{escape(curl_line(method, path, operation))}</code></pre></div>"
    if shown is None:
        return curl
    pretty = escape(json.dumps(shown, indent=2, ensure_ascii=False))
    return f'<div class="example">{curl}<div><h4>Response</h4><pre><code>{pretty}</code></pre></div></div>'


def curl_line(method: str, path: str, operation: Json) -> str:
    """A command line with the first example of the operation."""
    examples = {each["name"]: each.get("example", "") for each in operation.get("parameters", [])}
    lines = [f'curl -s "$RELAYDECK{_PARAMETER.sub(lambda name: examples[name[1]], path)}"']
    if method not in ("get", "post"):
        lines.append(f"-X {method.upper()}")
    if operation.get("security") != []:
        lines.append('-H "Authorization: Bearer $TOKEN"')
    if "requestBody" in operation:
        body = _first_example(operation["requestBody"]["content"]["application/json"])
        lines += ["-H 'Content-Type: application/json'", f"-d '{json.dumps(body, indent=2)}'"]
    return " \\\n  ".join(lines)


def _first_example(content: Json) -> Any:
    if "examples" in content:
        return next(iter(content["examples"].values()))["value"]
    return content.get("example")


def _answer(status: str, response: Json) -> str:
    media_type, content = next(iter(response["content"].items()))
    if MESSAGE in response:
        kind = f"“{escape(content['example']['message'])}”"
        response = response | {BASIS: response[BASIS] | {"message": response[MESSAGE][BASIS]["value"]}}
    elif "$ref" in content["schema"]:
        kind = _kind(content["schema"])
    else:
        kind = media_type
    headers = "".join(
        f"<li><code>{name}</code> {_inline(header['description'])}</li>"
        for name, header in response["headers"].items()
        if name not in ("X-Request-Id", "Relaydeck-Reason")  # described once, at the top
    )
    return _row(status, kind, response, f"<ul>{headers}</ul>" if headers else "")


def _types(schemas: dict[str, Json]) -> str:
    shown = "\n".join(_type(name, schema) for name, schema in schemas.items())
    return f'<section id="types">\n<h2>Types</h2>\n<p>Every body by its name.</p>\n{shown}\n</section>'


def _type(name: str, schema: Json) -> str:
    return "\n".join(
        [
            f'<article id="type-{name}">',
            f'<h3 class="address"><code>{name}</code></h3>{_basis(schema)}',
            _prose(schema["description"]) if "description" in schema else "",
            _choices(schema),
            _fields(schema),
            _codes(schema),
            "</article>",
        ]
    )


def _choices(schema: Json) -> str:
    if "discriminator" not in schema:
        return ""
    kinds = schema["discriminator"]["mapping"].items()
    rows = (f"<li><code>{kind}</code>: {_kind({'$ref': place})}</li>" for kind, place in kinds)
    return f"<p>One of these, by <code>type</code>:</p><ul>{''.join(rows)}</ul>"


def _fields(schema: Json) -> str:
    required = schema.get("required", [])
    rows = (
        _row(name, _kind(field) + ("" if name in required else ", optional"), field)
        for name, field in schema.get("properties", {}).items()
    )
    return f"<dl>{''.join(rows)}</dl>"


def _codes(schema: Json) -> str:
    rows = (_row(str(each["code"]), escape(each["message"]), each) for each in schema.get(CODES, []))
    return _section("Codes", rows)


def _kind(schema: Json) -> str:
    """A short description of a schema, with a link where it has a name."""
    if "$ref" in schema:
        name = _name(schema)
        return f'<a href="#type-{name}">{name}</a>'
    for key in ("const", "enum"):
        if key in schema:
            values = schema[key] if key == "enum" else [schema[key]]
            return " or ".join(f"<code>{escape(json.dumps(value))}</code>" for value in values)
    if "anyOf" in schema and "type" not in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"])
    return _plain_kind(schema)


def _plain_kind(schema: Json) -> str:
    given = schema.get("type", "any")
    kind = given if isinstance(given, str) else " or ".join(given)
    if kind == "array":
        items, most = schema.get("items"), f", at most {schema['maxItems']}" if "maxItems" in schema else ""
        return f"array{most}" if not items else f"array of {_kind(items)}{most}"
    limits = ["whole"] if schema.get("multipleOf") == 1 else []
    limits += [f"at least {schema['minimum']}"] if "minimum" in schema else []
    if "maxLength" in schema:
        least = f"{schema['minLength']} to" if "minLength" in schema else "at most"
        limits.append(f"{least} {schema['maxLength']} characters")
    return ", ".join([kind, *limits])
