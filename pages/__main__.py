"""Writes every page, the generated parts of the client, and the OpenAPI documents."""

from pages import (
    basis,
    chains,
    client_examples,
    client_methods,
    client_records,
    commands,
    json_output,
    metrics,
    page_sizes,
    sentences,
    settings,
)
from pages.openapi import files

_CLIENT = (client_records, client_methods, client_examples)
for each in (chains, settings, commands, json_output, metrics, basis, sentences, *_CLIENT, page_sizes):
    each.PAGE.write_text(each.page(), "utf-8")
for path, content in files.contents().items():
    path.write_text(content, "utf-8")
