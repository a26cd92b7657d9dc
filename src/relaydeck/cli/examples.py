"""`relaydeck init`: example files that come with the package."""

import os
from importlib.resources import files
from pathlib import Path

from relaydeck.cli.json_shapes import Written
from relaydeck.cli.output import print_json, print_note
from relaydeck.errors import OperatorError


def example_text(name: str) -> str:
    return (files("relaydeck") / "examples" / f"{name}.toml").read_text("utf-8")


def write_example(path: Path, name: str, as_json: bool) -> None:
    content = example_text(name).replace("apply FILE", f"apply {path}").replace("examples/demo.toml", str(path))
    try:
        # Readable by its owner alone: secrets may be written into it later.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise OperatorError(f"{path} exists", "Name another file, or remove this one. Nothing was written.") from None
    except OSError as error:
        raise OperatorError(
            f"{path.name} cannot be written to the folder {path.absolute().parent}: {error.strerror}",
            "Create the folder, or make it writable, or name a file in another folder. Nothing was written.",
        ) from None
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(content)
    if as_json:
        print_json(Written(str(path), name))
    else:
        print_note(f"wrote {path}; edit it, then see what it would change with: relaydeck apply {path} --plan")
