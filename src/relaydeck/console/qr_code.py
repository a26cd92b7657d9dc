"""An address as a QR code, drawn as SVG."""

from io import BytesIO

import segno
from markupsafe import Markup


def address_code(address: str) -> Markup:
    code = BytesIO()
    segno.make(address, error="m", micro=False).save(
        code, kind="svg", xmldecl=False, svgns=False, svgclass=None, lineclass=None, omitsize=True, border=2
    )
    return Markup(code.getvalue().decode())  # noqa: S704 (drawn from an address that the service has checked)
