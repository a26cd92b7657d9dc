"""Builds a release in `dist/` and says what to publish. `make release` checks and tests the source before.

python -m release                 everything
python -m release --without-image where mmdebstrap and buildah cannot be installed
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from release import artifacts
from release.version import ReleaseError

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__, formatter_class=_Plain)
    parser.add_argument("--without-image", action="store_true", help="leave the container image out")
    parser.add_argument("--without-sbom", action="store_true", help="leave the bill of materials out")
    given = parser.parse_args()
    try:
        version = artifacts.build(ROOT, DIST, print)
        if not given.without_sbom:
            print("writing the bill of materials")
            subprocess.run(["make", "--no-print-directory", "sbom"], cwd=ROOT, check=True)
            bill = json.loads((ROOT / "sbom.cdx.json").read_text("utf-8"))
            bill["metadata"]["component"]["version"] = version  # which no file of the source states
            (DIST / f"relaydeck-{version}.cdx.json").write_text(json.dumps(bill, indent=2) + "\n", "utf-8")
            (ROOT / "sbom.cdx.json").unlink()
        if not given.without_image:
            print("building the container image twice (minutes)")
            print(f"  {artifacts.build_image(ROOT, version, DIST).name}")
        artifacts.write_checksums(DIST)
    except (ReleaseError, subprocess.CalledProcessError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    print(_what_to_publish(version))
    return 0


_Plain = argparse.RawDescriptionHelpFormatter


def _what_to_publish(version: str) -> str:
    tag = "" if ".dev" in version else f"\n  git push origin v{version}"
    note = "\nThis is a build between releases: publish it nowhere but for tests." if ".dev" in version else ""
    return f"""
{version} is in {DIST.name}/, and nothing was published. To publish it:{tag}
  relaydeck and relaydeck_client to the Python package index (twine upload dist/*.whl dist/*.tar.gz)
  the package of clients/typescript to npm (npm publish dist/*.tgz)
  the image to your registry (podman load, podman tag, podman push)
  SHA256SUMS, the bill of materials and RELEASE-NOTES.md with the tag{note}"""


if __name__ == "__main__":
    sys.exit(main())
