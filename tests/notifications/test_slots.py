"""Which receivers get the slots of a delivering process."""

from relaydeck.notifications.claims import Capacity, ReceiverSlots

BUSY = ("busy", "eager")


def full_slots() -> ReceiverSlots:
    """Two slots, both taken by receivers that have many more deliveries."""
    slots = ReceiverSlots(2, 1)
    for sequence, receiver in enumerate(BUSY):
        slots.schedule(receiver, 0)
        assert slots.take_due(0) == [Capacity(receiver, 1, frozenset())]
        slots.started(receiver, sequence)
    return slots


def test_a_receiver_that_waits_for_a_slot_is_served_before_those_that_just_had_one() -> None:
    slots = full_slots()
    slots.schedule("quiet", 10)
    assert slots.take_due(11) == []
    for sequence, receiver in enumerate(BUSY):
        slots.finished(receiver, sequence, 12, delivered=True)
    assert [each.receiver for each in slots.take_due(12)] == ["quiet", "busy"]


def test_a_receiver_that_becomes_due_while_others_are_claimed_is_the_next() -> None:
    slots = ReceiverSlots(2, 1)
    slots.schedule("now", 10)
    slots.schedule("soon", 11)
    assert [each.receiver for each in slots.take_due(10)] == ["now"]
    assert slots.next_due(10) == 11
