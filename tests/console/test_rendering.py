"""Templates are compiled before the first page is shown: the event loop would wait for them."""

from relaydeck.console import rendering


def test_every_template_is_compiled_at_once() -> None:
    templates = rendering._templates
    assert templates.cache is not None
    templates.cache.clear()
    rendering.compile_templates()
    assert len(templates.cache) == len(templates.list_templates()) > 0
