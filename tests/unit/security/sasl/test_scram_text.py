"""Users of SCRAM in text, as Kafka's tools take them."""

import pytest

from kohort.errors import ConfigError
from kohort.secret import Secret
from kohort.security.sasl.exchange import Derivation
from kohort.security.sasl.scram import check_users, credential_of, parse_users

SALT = "c2FsdHNhbHRzYWx0"  # saltsaltsalt
SALTED = "iBBWCP0a4NFG30qZgxHR2CIKpPyikSVub9/BnHKC74c="


def users(text):
    return parse_users("option", Secret(text), lambda: b"a new salt")


def kept(hash_name="sha256", password="alice-secret", salt=b"saltsaltsalt", iterations=8192):
    return credential_of(
        hash_name, salt, iterations, Derivation(Secret(password), salt, iterations, hash_name).derive()
    )


@pytest.mark.parametrize(
    "text",
    [
        f'SCRAM-SHA-256=[name=alice,iterations=8192,salt="{SALT}",password=alice-secret]',
        f' SCRAM-SHA-256=[ name = "alice", password="alice-secret" ,iterations=8192,salt={SALT}] ',
        f"SCRAM-SHA-256=[name=alice,iterations=8192,salt={SALT},saltedpassword={SALTED}]",
    ],
)
def test_the_worked_example(text):
    assert users(text) == [("alice", "SCRAM-SHA-256", kept())]


def test_several_users_with_salts_of_their_own():
    found = users('SCRAM-SHA-256=[name=a,password=x]\n\nSCRAM-SHA-512=[name=b,password="y,]z"]\n')

    assert found == [
        ("a", "SCRAM-SHA-256", kept("sha256", "x", b"a new salt", 4096)),
        ("b", "SCRAM-SHA-512", kept("sha512", "y,]z", b"a new salt", 4096)),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("alice:planted", "expected SCRAM-SHA-256="),
        ("SCRAM-SHA-1=[name=a,password=planted]", "the mechanism is one of"),
        ("SCRAM-SHA-256=[name=a]", "either a password"),
        ("SCRAM-SHA-256=[password=planted]", "needs a name"),
        (f"SCRAM-SHA-256=[name=a,password=planted,saltedpassword={SALTED}]", "either a password"),
        ("SCRAM-SHA-256=[name=a,password=planted,iterations=4095]", "from 4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,password=planted,iterations=x]", "from 4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,password=planted,salt=!]", "salt is not in base 64"),
        (f"SCRAM-SHA-256=[name=a,saltedpassword={SALTED}]", "needs its salt"),
        (f"SCRAM-SHA-256=[name=a,salt={SALT},saltedpassword={SALT}]", "as long as the hash"),
        ("SCRAM-SHA-256=[name=a,name=b,password=planted]", "expected SCRAM-SHA-256="),
        ("SCRAM-SHA-256=[name=a,secret=planted]", "expected SCRAM-SHA-256="),
        ('SCRAM-SHA-256=[name=a,password="planted]', "expected SCRAM-SHA-256="),
    ],
)
def test_a_mistake_is_told_and_no_secret(text, words):
    for read in (users, lambda given: check_users("option", Secret(given))):
        with pytest.raises(ConfigError, match=words) as failed:
            read(text)
        assert "planted" not in str(failed.value)
        assert str(failed.value).startswith("option: ")
