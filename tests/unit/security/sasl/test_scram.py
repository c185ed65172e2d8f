"""SCRAM, client and broker side: vectors of RFC 7677 and Kafka, and malformed exchanges."""

import base64
import hashlib
import hmac
import random

import pytest

from kohort.errors import AuthenticationFailed, ConfigError
from kohort.secret import Secret
from kohort.security.sasl.exchange import OTHER_AUTHORIZATION_ID, Derivation, LoggedInAs, Refused
from kohort.security.sasl.scram import (
    DERIVED_KEPT,
    HASHES,
    DerivedPasswords,
    ScramClient,
    ScramServer,
    check_users,
    credential_of,
    new_nonce,
    parse_users,
)

SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"


def credential(mechanism=SHA_256, password="alice-secret", salt=b"saltsaltsalt", iterations=8192):
    salted = Derivation(Secret(password), salt, iterations, HASHES[mechanism]).derive()
    return credential_of(HASHES[mechanism], salt, iterations, salted)


def server(found=None, mechanism=SHA_256, nonce="1o6wt7iqfiepl0q9wotxtl95as", name="alice"):
    found = found or credential(mechanism)
    return ScramServer(mechanism, {name: found}.get, nonce)


def client(password="alice-secret", mechanism=SHA_256, name="alice", nonce="fyko+d2lbbFgONRv9qkxdawL", passwords=None):
    return ScramClient(mechanism, name, Secret(password), nonce, passwords)


def answered(client, challenge):
    response = client.next(challenge)
    return client.derived(response.derive()) if isinstance(response, Derivation) else response


def test_credential_matches_kafka():
    salted = Derivation(Secret("alice-secret"), b"saltsaltsalt", 8192, "sha256").derive()
    kept = credential_of("sha256", b"saltsaltsalt", 8192, salted)

    assert base64.b64encode(salted) == b"iBBWCP0a4NFG30qZgxHR2CIKpPyikSVub9/BnHKC74c="
    assert base64.b64encode(kept.stored_key) == b"6+QMrryQJ6+KvZWM+y11UiMuL64KtPR/+aJ5FOeuBsM="
    assert base64.b64encode(kept.server_key) == b"iptwC0N2E4Qxy7UvaUY5LYL8pCoEzq8EKm71HKGVbKA="
    assert "stored_key" not in repr(kept)


def test_scram_exchange_matches_kafka_bytes():
    ours, theirs = client(), server()

    first = ours.first()
    challenge = theirs.evaluate(first, 0)
    final = answered(ours, challenge)
    proof = theirs.evaluate(final, 0)

    assert first == b"n,,n=alice,r=fyko+d2lbbFgONRv9qkxdawL"
    assert challenge == b"r=fyko+d2lbbFgONRv9qkxdawL1o6wt7iqfiepl0q9wotxtl95as,s=c2FsdHNhbHRzYWx0,i=8192"
    assert final == (
        b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL1o6wt7iqfiepl0q9wotxtl95as,p=VDDuc2j52TfM6m4NqZE9GJkPpp1f++KB7H4fOHJmHbM="
    )
    assert proof == b"v=jm1dNPYcG7vEOK0p0CNjichKO4vcqlzkI89u7D3CUNw="
    assert theirs.user == LoggedInAs("alice")
    assert ours.next(proof) is None
    assert ours.is_complete


def test_rfc_7677_test_vector():
    nonce, salt = "rOprNGfwEbeRWgbNEkqO", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    ours = client("pencil", name="user", nonce=nonce)
    theirs = server(
        credential(password="pencil", salt=salt, iterations=4096), nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", name="user"
    )

    final = answered(ours, theirs.evaluate(ours.first(), 0))

    assert final.endswith(b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    assert theirs.evaluate(final, 0) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
@pytest.mark.parametrize(("name", "password"), [("alice", "x"), ("a=b,c", "=,=2C"), ("zoë", "pässwörd"), ("n", "\0")])
def test_any_user_name_and_password_log_in(mechanism, name, password):
    ours = client(password, mechanism, name)
    theirs = server(credential(mechanism, password), mechanism, name=name)

    proof = theirs.evaluate(answered(ours, theirs.evaluate(ours.first(), 0)), 0)

    assert theirs.user == LoggedInAs(name)
    assert ours.next(proof) is None


def test_repeated_client_nonce_is_accepted_as_in_kafka():
    theirs, salted = server(), Derivation(Secret("alice-secret"), b"saltsaltsalt", 8192, "sha256").derive()
    challenge = theirs.evaluate(b"n,,n=alice,r=mine", 0)
    nonce = b"mine" + challenge.partition(b",")[0].removeprefix(b"r=")
    signed = b"n=alice,r=mine," + challenge + b",c=biws,r=" + nonce
    key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True)))

    assert theirs.evaluate(b"c=biws,r=" + nonce + b",p=" + proof, 0).startswith(b"v=")
    assert theirs.user == LoggedInAs("alice")


def test_derived_password_is_cached():
    passwords = DerivedPasswords()
    one, other = client(passwords=passwords), client(passwords=passwords)
    derivation = one.next(server().evaluate(one.first(), 0))
    one.derived(derivation.derive())

    assert isinstance(other.next(server().evaluate(other.first(), 0)), bytes)


def test_derived_password_cache_is_limited():
    passwords = DerivedPasswords()
    derivations = [Derivation(Secret("x"), bytes([i]), 4096, "sha256") for i in range(DERIVED_KEPT + 1)]
    for derivation in derivations:
        passwords.keep(derivation, b"derived")

    assert passwords.get(derivations[0]) is None
    assert passwords.get(derivations[1]) == b"derived"


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (b"y,,n=alice,r=x", None),
        (b"p=tls-unique,,n=alice,r=x", None),
        (b"n,,n=al=ice,r=x", None),
        (b"n,,n=alice,r=", None),
        (b"n,,n=alice,r=a b", None),
        (b"n,,n=bob,r=x", None),
        (b"n,,n=alice,r=x,m=1", None),
        (b"n,,n=alice,r=x,tokenauth=true", None),
        (b"n,,m=1,n=alice,r=x", None),
        (b"", None),
        (b"\xff", None),
        (b"n,a=bob,n=alice,r=x", OTHER_AUTHORIZATION_ID),
    ],
)
def test_malformed_first_token_gets_generic_error(token, words):
    theirs = server()

    with pytest.raises(Refused) as refused:
        theirs.evaluate(token, 0)

    assert refused.value.words == words
    assert theirs.user is None


def test_unknown_extensions_are_signed_and_ignored():
    assert server().evaluate(b"n,a=alice,n=alice,r=x,foo=bar", 0).startswith(b"r=x1o6")


@pytest.mark.parametrize(
    "change",
    [
        lambda final: final.replace(b"p=V", b"p=W"),
        lambda final: final.replace(b"r=fyko", b"r=fykO"),
        lambda final: final.replace(b"c=biws", b"c=eSws"),
        lambda final: final[: final.index(b",p=")],
        lambda final: final[: final.index(b"p=") + 6],
        lambda final: final + b"=",
        lambda final: b"",
        lambda final: b"\x00\xff",
    ],
)
def test_changed_proof_is_rejected(change):
    ours, theirs = client(), server()
    final = answered(ours, theirs.evaluate(ours.first(), 0))

    with pytest.raises(Refused) as refused:
        theirs.evaluate(change(final), 0)

    assert refused.value.words is None
    assert theirs.user is None


def test_wrong_password_is_rejected():
    ours, theirs = client("wrong"), server()
    final = answered(ours, theirs.evaluate(ours.first(), 0))

    with pytest.raises(Refused) as refused:
        theirs.evaluate(final, 0)

    assert "wrong password" in refused.value.detail


@pytest.mark.parametrize(
    ("challenge", "words"),
    [
        (b"r=other,s=c2FsdA==,i=4096", "nonce"),
        (b"r=fyko+d2lbbFgONRv9qkxdawL,s=c2FsdA==,i=4096", "nonce"),
        (b"r=fyko+d2lbbFgONRv9qkxdawLx,s=c2FsdA==,i=4095", "4095 iterations"),
        (b"r=fyko+d2lbbFgONRv9qkxdawLx,s=c2FsdA==,i=99999999", "99999999 iterations"),
        (b"r=fyko+d2lbbFgONRv9qkxdawLx,s=,i=4096", "malformed"),
        (b"r=fyko+d2lbbFgONRv9qkxdawLx,s=c2F,i=4096", "malformed"),
        (b"e=unknown-user", "unknown-user"),
        (b"", "malformed"),
        (b"\xff", "UTF-8"),
    ],
)
def test_client_rejects_malformed_challenge(challenge, words):
    ours = client()
    ours.first()

    with pytest.raises(AuthenticationFailed, match=words):
        ours.next(challenge)


@pytest.mark.parametrize(
    "proof", [b"v=jm1dNPYcG7vEOK0p0CNjichKO4vcqlzkI89u7D3CUN0=", b"", b"v=", b"v=!!", b"e=other-error"]
)
def test_client_rejects_wrong_broker_signature(proof):
    ours, theirs = client(), server()
    answered(ours, theirs.evaluate(ours.first(), 0))

    with pytest.raises(AuthenticationFailed):
        ours.next(proof)

    assert not ours.is_complete


def test_scram_client_needs_name_and_password():
    with pytest.raises(AuthenticationFailed, match="user name"):
        client("")


def test_nonces_are_valid_and_unique():
    rng = random.Random(7)
    nonces = {new_nonce(rng) for _ in range(100)}

    assert len(nonces) == 100
    assert all(n.isalnum() and n.isascii() for n in nonces)


SALT = "c2FsdHNhbHRzYWx0"  # "saltsaltsalt" in base64
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
def test_add_scram_example_is_parsed(text):
    assert users(text) == [("alice", "SCRAM-SHA-256", kept())]


def test_several_users_have_different_salts():
    found = users('SCRAM-SHA-256=[name=a,password=x]\n\nSCRAM-SHA-512=[name=b,password="y,]z"]\n')

    assert found == [
        ("a", "SCRAM-SHA-256", kept("sha256", "x", b"a new salt", 4096)),
        ("b", "SCRAM-SHA-512", kept("sha512", "y,]z", b"a new salt", 4096)),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("alice:planted", "expected SCRAM-SHA-256="),
        ("SCRAM-SHA-1=[name=a,password=planted]", "expected one of SCRAM"),
        ("SCRAM-SHA-256=[name=a]", "either a password"),
        ("SCRAM-SHA-256=[password=planted]", "needs a name"),
        (f"SCRAM-SHA-256=[name=a,password=planted,saltedpassword={SALTED}]", "either a password"),
        ("SCRAM-SHA-256=[name=a,password=planted,iterations=4095]", "must be 4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,password=planted,iterations=x]", "must be 4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,password=planted,salt=!]", "salt is not base64"),
        (f"SCRAM-SHA-256=[name=a,saltedpassword={SALTED}]", "needs a salt"),
        (f"SCRAM-SHA-256=[name=a,salt={SALT},saltedpassword={SALT}]", "as long as the hash"),
        ("SCRAM-SHA-256=[name=a,name=b,password=planted]", "expected SCRAM-SHA-256="),
        ("SCRAM-SHA-256=[name=a,secret=planted]", "expected SCRAM-SHA-256="),
        ('SCRAM-SHA-256=[name=a,password="planted]', "expected SCRAM-SHA-256="),
    ],
)
def test_malformed_users_error_hides_secrets(text, words):
    for read in (users, lambda value: check_users("option", Secret(value))):
        with pytest.raises(ConfigError, match=words) as failed:
            read(text)
        assert "planted" not in str(failed.value)
        assert str(failed.value).startswith("option: ")
