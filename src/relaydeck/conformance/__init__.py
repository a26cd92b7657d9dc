"""Black-box checks of the interface, against any server that claims to speak it.

Built on the standard library's `http.client` and nothing else of this project, so that a mistake in the server or the
client cannot hide itself here.
"""
