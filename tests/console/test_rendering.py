"""Templates are compiled before the first page is shown: the event loop would wait for them."""

from relaydeck.console import rendering
from relaydeck.worker import late_console


def test_loading_the_console_compiles_every_template() -> None:
    templates = rendering._templates
    assert templates.cache is not None
    templates.cache.clear()
    late_console._load()
    assert len(templates.cache) == len(templates.list_templates()) > 0
