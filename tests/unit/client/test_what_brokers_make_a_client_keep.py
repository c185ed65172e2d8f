"""What answers can make a client keep is bounded."""

from kohort.client.requests.notes import Notes
from kohort.client.requests.troubles import KNOWN_MOST, Troubles


def test_troubles_of_ever_new_names_are_forgotten_the_oldest_first():
    troubles = Troubles(Notes())

    for number in range(2 * KNOWN_MOST):
        troubles.report(("address", number), "it does not answer", number)

    assert len(troubles._known) == KNOWN_MOST
    assert ("address", 2 * KNOWN_MOST - 1) in troubles._known
