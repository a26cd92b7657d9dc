"""The addresses of signers for commands on the home: drivers are asked before the transaction of a change."""

import asyncio
from collections.abc import Callable
from functools import partial

from relaydeck.cli.local.store import existing_store
from relaydeck.settings import Settings, read_settings
from relaydeck.signers.key_access import KeyAccess
from relaydeck.signers.known_addresses import Answers, KeyAnswer, KeySource, KnownAddresses, Questions, ask_keys
from relaydeck.store.open_store import Store


def key_source() -> KeySource:
    settings = read_settings()
    return KeySource(KeyAccess(settings).bound_types, partial(_ask_now, settings))


def asking_once(source: KeySource) -> KeySource:
    """Remembers the answers for as long as it is used."""
    known: dict[str, KeyAnswer] = {}

    def ask(questions: Questions) -> Answers:
        known.update(source.ask({name: each for name, each in questions.items() if name not in known}))
        return {name: known[name] for name in questions}

    return source._replace(ask=ask)


def relayer_addresses(questions: Callable[[Store, frozenset[str]], Questions]) -> KnownAddresses:
    """What a change of a relayer depends on. `questions` finds what drivers have to be asked."""
    source = key_source()
    unknown = KnownAddresses(source.bound_types)
    if not unknown.asked_types:
        return unknown
    with existing_store() as store:
        asked = questions(store, source.bound_types)
    return source.addresses(asked)


def _ask_now(settings: Settings, questions: Questions) -> Answers:
    return asyncio.run(_ask(settings, questions)) if questions else {}


async def _ask(settings: Settings, questions: Questions) -> Answers:
    access = KeyAccess(settings)
    try:
        return await ask_keys(await access.keys(), questions, locally=True)
    finally:
        await access.close()
