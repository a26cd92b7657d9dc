"""Clients generated from both OpenAPI documents compile, and call a live service.

The generators read the documents that the service serves. One start of openapi-generator makes its eight clients, each
of which lists signers.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import DEMO
from tests.support.running import Running, make_token, run_command

pytestmark = [pytest.mark.prove, pytest.mark.parallel]

HERE = Path(__file__).parent / "generators"
TOOLS = HERE.parents[2] / ".venv" / "generators"
NODE = HERE / "node_modules" / ".bin"
PYTHON = TOOLS / "python" / "bin"
DOCUMENTS = {"api": "/openapi.json", "admin": "/admin/v1/openapi.json"}
LANGUAGES = ("python", "go", "typescript-fetch", "java")
OPTIONS = {"java": {"library": "native"}, "typescript-fetch": {"importFileExtension": ".js"}}
TSC = ["--strict", "--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext"]

PYTHON_CALL = """
import sys, {package}
configuration = {package}.Configuration(host=sys.argv[1], access_token=sys.argv[2])
print({package}.SignersApi({package}.ApiClient(configuration)).list_signers().data[0].id)
"""
ATTRS_CALL = """
import sys
from {package} import AuthenticatedClient
from {package}.api.signers import list_signers
print(list_signers.sync(client=AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2])).data[0].id)
"""
MODELS_CALL = """
import sys, httpx, {package}
answer = httpx.get(sys.argv[3], headers={{"Authorization": "Bearer " + sys.argv[2]}})
print({package}.SignerListEnvelope.model_validate_json(answer.content).data[0].id)
"""
FETCH_CALL = """
import { Configuration, SignersApi } from "./index.js";
const [, , basePath, accessToken] = process.argv;
const found = await new SignersApi(new Configuration({ basePath, accessToken })).listSigners();
console.log(found.data[0].id);
"""
ORVAL_CALL = """
import { listSigners } from "./client.js";
const found = await listSigners({}, { headers: { Authorization: "Bearer " + process.argv[3] } });
if (found.status !== 200) throw new Error(String(found.status));
console.log(found.data.data[0].id);
"""
TYPES_CALL = """
import type { paths } from "./types.js";
type Listed = paths["PATH"]["get"]["responses"][200]["content"]["application/json"];
const found = await fetch(process.argv[2] + "PATH", { headers: { Authorization: "Bearer " + process.argv[3] } });
const listed = (await found.json()) as Listed;
console.log(listed.data[0].id);
"""
JAVA_CALL = """
class Call {
    public static void main(String[] given) throws Exception {
        var client = new org.openapitools.client.ApiClient();
        client.updateBaseUri(given[0]);
        client.setRequestInterceptor(request -> request.header("Authorization", "Bearer " + given[1]));
        var signers = new org.openapitools.client.api.SignersApi(client);
        System.out.println(signers.listSigners(NULLS).getData().get(0).getId());
    }
}
"""


def run(*command: str | Path, folder: Path) -> str:
    """The output of a command that must succeed."""
    environment = os.environ | {"PATH": f"{PYTHON}:{os.environ['PATH']}", "PYTHONPATH": str(folder)}
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout + done.stderr


class Scene:
    """A service, and its documents as files."""

    def __init__(self, service: Running, folder: Path) -> None:
        self.folder = folder
        self.caller = [f"http://127.0.0.1:{service.port}", service.token]
        for name, path in DOCUMENTS.items():
            (folder / f"{name}.json").write_bytes(service.ask("GET", path, token="").body)

    def made(self, name: str, language: str) -> Path:
        return self.folder / f"{name}-{language}"


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    home = tmp_path_factory.mktemp("generated") / "home"
    assert run_command(home, "apply", "-", stdin=DEMO).returncode == 0
    with Running(home, token=make_token(home, "tests", "--kind", "admin")) as running:
        yield Scene(running, tmp_path_factory.mktemp("clients"))


@pytest.fixture(scope="module")
def generated(scene: Scene) -> Scene:
    """With the clients of openapi-generator, made in one start of it."""
    for name in DOCUMENTS:
        for language in LANGUAGES:
            more = OPTIONS.get(language) or {"packageName": _package(name, language)}
            config: dict[str, Any] = {
                "generatorName": language,
                "inputSpec": str(scene.folder / f"{name}.json"),
                "outputDir": str(scene.made(name, language)),
                "additionalProperties": more,
            }
            (scene.folder / f"{name}-{language}.yaml").write_text(json.dumps(config))
    jar = next(TOOLS.glob("python/lib/*/site-packages/openapi_generator_cli/*.jar"))
    said = run("java", "-jar", jar, "batch", "--fail-fast", *scene.folder.glob("*.yaml"), folder=scene.folder)
    assert "ERROR" not in said and "Exception" not in said, said
    return scene


def _package(name: str, language: str) -> str:
    return "generated" if language == "go" else f"relaydeck_{name}"


both = pytest.mark.parametrize("name", DOCUMENTS)


@both
def test_openapi_generator_python(generated: Scene, name: str) -> None:
    program = PYTHON_CALL.format(package=f"relaydeck_{name}")
    folder = generated.made(name, "python")
    assert run(PYTHON / "python", "-W", "ignore", "-c", program, *generated.caller, folder=folder) == "ops\n"


@both
def test_openapi_generator_go(generated: Scene, name: str, tmp_path: Path) -> None:
    shutil.copytree(HERE / "go", tmp_path / "go")
    (tmp_path / "go" / "generated").mkdir()
    for source in generated.made(name, "go").glob("*.go"):
        shutil.copy(source, tmp_path / "go" / "generated")
    assert run("go", "run", "-mod=readonly", ".", *generated.caller, folder=tmp_path / "go") == "ops\n"


@both
def test_openapi_generator_typescript_fetch(generated: Scene, name: str) -> None:
    folder = generated.made(name, "typescript-fetch")
    assert _node(folder, FETCH_CALL, generated) == "ops\n"


@both
def test_openapi_generator_java(generated: Scene, name: str, tmp_path: Path) -> None:
    described = json.loads((generated.folder / f"{name}.json").read_bytes())
    nulls = ", ".join(["null"] * len(described["paths"][f"/{name}/v1/signers"]["get"]["parameters"]))
    (tmp_path / "Call.java").write_text(JAVA_CALL.replace("NULLS", nulls))
    sources = generated.made(name, "java").glob("src/main/**/*.java")
    jars = f"{TOOLS / 'jars'}/*"
    options = ["-nowarn", "-proc:none", "-d", str(tmp_path), "-cp", jars]
    run("javac", *options, tmp_path / "Call.java", *sources, folder=tmp_path)
    assert run("java", "-cp", f"{tmp_path}:{jars}", "Call", *generated.caller, folder=tmp_path) == "ops\n"


@both
def test_openapi_python_client(scene: Scene, name: str, tmp_path: Path) -> None:
    made = ["--path", str(scene.folder / f"{name}.json"), "--output-path", str(tmp_path / "listed"), "--meta", "none"]
    said = run(PYTHON / "openapi-python-client", "generate", "--fail-on-warning", *made, folder=tmp_path)
    assert "arning" not in said, said
    program = ATTRS_CALL.format(package="listed")
    assert run(PYTHON / "python", "-c", program, *scene.caller, folder=tmp_path) == "ops\n"


@both
def test_datamodel_code_generator(scene: Scene, name: str, tmp_path: Path) -> None:
    files = ["--input", str(scene.folder / f"{name}.json"), "--output", str(tmp_path / "models.py")]
    kinds = ["--input-file-type", "openapi", "--output-model-type", "pydantic_v2.BaseModel"]
    run(PYTHON / "datamodel-codegen", *files, *kinds, "--formatters", "builtin", folder=tmp_path)
    program = MODELS_CALL.format(package="models")
    place = f"{scene.caller[0]}/{name}/v1/signers"
    assert run(PYTHON / "python", "-c", program, *scene.caller, place, folder=tmp_path) == "ops\n"


@both
def test_openapi_typescript(scene: Scene, name: str, tmp_path: Path) -> None:
    run(NODE / "openapi-typescript", scene.folder / f"{name}.json", "-o", tmp_path / "types.ts", folder=tmp_path)
    assert _node(tmp_path, TYPES_CALL.replace("PATH", f"/{name}/v1/signers"), scene) == "ops\n"


@both
def test_orval(scene: Scene, name: str, tmp_path: Path) -> None:
    output = {"target": str(tmp_path / "client.ts"), "client": "fetch", "baseUrl": scene.caller[0]}
    config = {"it": {"input": str(scene.folder / f"{name}.json"), "output": output}}
    (tmp_path / "orval.config.cjs").write_text(f"module.exports = {json.dumps(config)};")
    run(NODE / "orval", "--config", tmp_path / "orval.config.cjs", folder=tmp_path)
    assert _node(tmp_path, ORVAL_CALL, scene) == "ops\n"


def _node(folder: Path, program: str, scene: Scene) -> str:
    """Compile a program beside the generated TypeScript, and run it."""
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "call.ts").write_text(program + "export {};\n")
    (folder / "process.d.ts").write_text("declare const process: { argv: string[] };\n")
    run(NODE / "tsc", *TSC, "--lib", "es2022,dom,dom.iterable", "call.ts", "process.d.ts", folder=folder)
    return run("node", folder / "call.js", *scene.caller, folder=folder)


@both
def test_redocly_finds_no_error(scene: Scene, name: str) -> None:
    run(NODE / "redocly", "lint", scene.folder / f"{name}.json", folder=scene.folder)
