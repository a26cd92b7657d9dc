"""nginx serving captured answers as static files: what the machine can do at all."""

import os
from pathlib import Path

from bench.bare import parse_answer
from bench.processes import Server, free_port

# Everything that costs is off, and what helps is on: this side is meant to be hard to match.
_CONFIG = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log crit; {user}
events {{ worker_connections 1024; }}
http {{
  access_log off; server_tokens off; etag off; default_type application/json;
  sendfile on; tcp_nopush on; open_file_cache max=16; keepalive_requests 1000000000;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  server {{ listen 127.0.0.1:{port} backlog=1024; root {folder}/files;
{locations}
  }}
}}
"""


def serve_files(program: str, folder: Path, answers: dict[str, bytes]) -> Server:
    """Serve each captured answer, its headers included, at the path it was captured from."""
    folder.mkdir(exist_ok=True)
    for path, raw in answers.items():
        file = folder / "files" / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(parse_answer(raw)[1])
    port = free_port()
    config = folder / "nginx.conf"
    locations = "\n".join(_location(path, raw) for path, raw in answers.items())
    # Started as root, the worker would become a user who may not enter our folder.
    user = "user root;" if os.geteuid() == 0 else ""
    config.write_text(_CONFIG.format(folder=folder, port=port, locations=locations, user=user))
    return Server(port, [program, "-c", str(config), "-e", str(folder / "error.log")], folder / "log")


def _location(path: str, raw: bytes) -> str:
    headers = "".join(
        f" add_header {name.decode()} '{value.decode()}';"
        for name, value in parse_answer(raw)[0]
        if name.lower() != b"content-type"
    )
    return f"    location = {path} {{{headers} }}"
