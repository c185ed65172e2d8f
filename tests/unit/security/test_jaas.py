"""Parser of ``sasl.jaas.config``."""

import pytest

from kohort.errors import ConfigError
from kohort.secret import Secret
from kohort.security.jaas import parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


USER = {"username": "alice", "password": "a b"}


@pytest.mark.parametrize(
    ("text", "module", "options"),
    [
        (f'{PLAIN} required username="alice" password="a b";', "PlainLoginModule", USER),
        (f"{PLAIN} required username=alice password='a b';", "PlainLoginModule", USER),
        (f"kafkashaded.{PLAIN} REQUIRED ;", "PlainLoginModule", {}),
        (
            f'{PLAIN} optional\n  user_a="\\"x\\" \\\\;"\n  user_b="=";\n',
            "PlainLoginModule",
            {"user_a": '"x" \\;', "user_b": "="},
        ),
        (f'{PLAIN} required /* for tests */ a="http://x" // so\n;', "PlainLoginModule", {"a": "http://x"}),
        ("ScramLoginModule sufficient a=1;", "ScramLoginModule", {"a": "1"}),
    ],
)
def test_jaas_entry_is_parsed(text, module, options):
    entry = parse_jaas(Secret(text))

    assert entry.module == module
    assert {key: value.reveal() for key, value in entry.options.items()} == options


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f'{PLAIN} required username="alice"', "JAAS config entry not terminated by semi-colon"),
        (f"{PLAIN} required username;", "Value not specified for key 'username' in JAAS config"),
        (f"{PLAIN} required username=;", "Value not specified for key 'username' in JAAS config"),
        (f"{PLAIN} required password=planted planted2;", r"Value not specified for key '\[hidden\]' in JAAS config"),
        (f"{PLAIN} perhaps username=x;", "control flag is none of required"),
        (f"{PLAIN};", "control flag not specified"),
        ("", "Login module not specified"),
        (f'{PLAIN} required password="planted;', "unclosed quotation mark"),
        (f"{PLAIN} required a=b; {PLAIN} required;", "should be 1 module"),
    ],
)
def test_malformed_jaas_error_hides_secrets(text, words):
    with pytest.raises(ConfigError, match=words) as failed:
        parse_jaas(Secret(text))
    assert "planted" not in str(failed.value)
    assert str(failed.value).startswith("sasl.jaas.config: ")


def test_jaas_repr_hides_password():
    entry = parse_jaas(Secret(f'{PLAIN} required user_alice="planted";'))

    assert "planted" not in f"{entry!r} {entry}"
    assert entry.get("user_alice") == "planted"
    assert entry.get("user_bob") is None
    assert {name: secret.reveal() for name, secret in entry.under("user_").items()} == {"alice": "planted"}
