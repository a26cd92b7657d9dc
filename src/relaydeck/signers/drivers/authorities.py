"""Which certificate authorities are trusted for key systems."""

import ssl
from functools import cache
from pathlib import Path

from relaydeck.errors import OperatorError


@cache
def trusted_authorities(ca_file: Path | None) -> ssl.SSLContext:
    """Made once for all drivers, in a thread: reading the certificates of the system takes a tenth of a second."""
    tls = ssl.create_default_context()
    if ca_file is not None:
        try:
            tls.load_verify_locations(ca_file)
        except OSError:  # a missing file, or one without a certificate
            problem = f"the certificates in {ca_file} cannot be read"
            raise OperatorError(problem, "RELAYDECK_DRIVER_CA_FILE must name a readable file in PEM form.") from None
    return tls
