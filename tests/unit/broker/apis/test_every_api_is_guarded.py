"""Authorization of each API in its lowest and highest version: without rights, and with each right alone."""

import pytest

from kohort.broker.dispatch import SERVED
from kohort.security.acls import OPERATIONS_OF, Operation, ResourceType
from support.machines.guarded_stage import GuardedStage, ask, state_of
from support.security.api_levels import at_both_ends, uncalled_bounds
from support.security.api_requests import Right, Things, calls, denials_in

pytestmark = pytest.mark.heavy


KINDS = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID, ResourceType.CLUSTER)
OF_IDS = (Operation.WRITE, Operation.DESCRIBE)
SINGLE: list[Right] = [
    *((operation, kind) for kind in KINDS for operation in (*OPERATIONS_OF.get(kind, OF_IDS), Operation.ALL))
]
ANYTHING = Things("a", b"0123456789abcdef", "n", "g", "m", 1, "e", "t", 1, 0, "f")
NEEDS = {call.name: call.needs for call in at_both_ends(calls(ANYTHING))}
CALLS = list(NEEDS)


class Walk:
    """Sends the calls of all APIs to a broker, which is replaced after each call that changed its state."""

    def __init__(self) -> None:
        self.stage: GuardedStage | None = None
        self.effects: list[str] = []

    def call(self, name: str, rights: list[Right]):
        if self.stage is None:
            self.stage = GuardedStage()
            self.things = self.stage.fill()
        call = next(call for call in at_both_ends(calls(self.things)) if call.name == name)
        self.stage.let_rights(self.things, rights)
        before = state_of(self.stage)
        answer = ask(self.stage.connect(), call.message, call.version)
        after = state_of(self.stage)
        if call.is_allowed_by(rights):
            self.stage = None
        elif before != after:
            self.effects.append(f"{name} with {rights}: {[k for k in before if before[k] != after[k]]}")
            self.stage = None
        return call, answer


def test_each_served_api_has_an_example_call():
    without_call = {api.name for api in SERVED.values()} - {call.api for call in calls(ANYTHING)}
    assert without_call - {"SaslHandshake", "SaslAuthenticate"} == set(), "logins need no right"


def test_calls_have_the_lowest_and_highest_version_of_each_api():
    missing = {name for name, _ in uncalled_bounds(at_both_ends(calls(ANYTHING)))}
    assert missing == {"SaslHandshake", "SaslAuthenticate"}


@pytest.mark.parametrize("name", CALLS)
def test_request_without_rights_is_rejected_without_effect(name):
    walk = Walk()

    call, answer = walk.call(name, [])

    assert denials_in(answer) == call.refused
    assert walk.effects == []


@pytest.mark.parametrize("name", CALLS)
def test_right_to_one_operation_permits_no_other_operation(name):
    walk = Walk()
    wrong = []
    for right in SINGLE:
        call, answer = walk.call(name, [right])
        if call.is_shorter or not call.needs:
            is_right = denials_in(answer) == ()
        else:
            is_right = (denials_in(answer) == ()) == call.is_allowed_by([right])
        if not is_right:
            wrong.append((right, denials_in(answer)))

    assert wrong == []
    assert walk.effects == []


@pytest.mark.parametrize("name", CALLS)
def test_request_with_the_required_rights_is_served(name):
    _, full = Walk().call(name, [(Operation.ALL, kind) for kind in KINDS])
    assert denials_in(full) == ()

    for rights in NEEDS[name]:
        _, answer = Walk().call(name, list(rights))
        assert denials_in(answer) == ()
