"""Ids of topics, members and clients: version 4 UUIDs whose text is no option of a command line."""

import random
import string
import uuid

from kohort.clock import random_uuid
from kohort.model import uuid_to_text


def test_random_uuid_has_version_4_and_random_other_bits():
    rng = random.Random(1)
    drawn = [random_uuid(rng) for _ in range(2_000)]

    ever, always = 0, int.from_bytes(drawn[0])
    for number in map(int.from_bytes, drawn):
        ever |= number
        always &= number
    version_and_variant = (0xF << 76) | (0b11 << 62)
    assert ever | version_and_variant == (1 << 128) - 1
    assert always & ~version_and_variant == 0
    assert {(id_.version, id_.variant) for id_ in map(_uuid_of, drawn)} == {(4, uuid.RFC_4122)}


def test_text_of_random_uuid_does_not_begin_with_a_dash():
    rng = random.Random(1)

    first_characters = {uuid_to_text(random_uuid(rng))[0] for _ in range(2_000)}

    assert first_characters == set(string.ascii_letters + string.digits + "_")


def test_uuid_with_a_leading_dash_is_drawn_again():
    class Drawn:
        def __init__(self):
            self.numbers = [0b111110 << 122, 0b111101 << 122]

        def getrandbits(self, _k):
            return self.numbers.pop(0)

    assert uuid_to_text(random_uuid(Drawn())).startswith("9")


def _uuid_of(drawn):
    return uuid.UUID(bytes=drawn)
