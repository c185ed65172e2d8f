import os
import ssl
import subprocess
import sys
from pathlib import Path

import jks
import pytest
from cryptography.hazmat.primitives import serialization

from kohort.aio.tls.contexts import client_context, openssl_name, server_context, tls_of
from kohort.config import parse_config
from kohort.config.client_security import ClientSecurityConfig
from kohort.config.listener_security import ListenerConfig
from kohort.errors import ConfigError
from support.security.certificates import PASSWORD, Certificates
from support.security.tls_pair import TlsPair


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("certificates"))


def listener(**options):
    return server_context(parse_config(ListenerConfig, {k.replace("_", "."): v for k, v in options.items()}))


def client(**options):
    return client_context(parse_config(ClientSecurityConfig, {k.replace("_", "."): v for k, v in options.items()}))


def refused(make, **options):
    with pytest.raises(ConfigError) as error:
        make(**options)
    assert PASSWORD not in str(error.value)
    return str(error.value)


def serve(certificates, **options):
    return listener(ssl_keystore_location=str(certificates.server.pem), **options)


def believe(certificates, **options):
    return client(ssl_ca_location=str(certificates.authority.certificate), **options)


def meet(client, server, host="localhost"):
    pair = TlsPair(client, server, host).shake()
    return {name: error.reason for name, error in pair.failures.items()}


def der_of(path):
    return ssl.PEM_cert_to_DER_cert(path.read_text()[: path.read_text().index("-----END") + 26])


def jks_store(certified, path, key_password=None):
    pkcs8 = serialization.load_pem_private_key(certified.key.read_bytes(), None).private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    entry = jks.PrivateKeyEntry.new("own", [der_of(certified.certificate)], pkcs8, "rsa_raw")
    entry.pkey_pkcs8 = pkcs8
    entry._encrypted = None
    if key_password:
        entry.encrypt(key_password)
    path.write_bytes(jks.KeyStore.new("jks", [entry]).saves(PASSWORD))
    return path


def jks_trust(authority, path):
    path.write_bytes(
        jks.KeyStore.new("jks", [jks.TrustedCertEntry.new("ca", der_of(authority.certificate))]).saves(PASSWORD)
    )
    return path


def encrypted_key(certified, path, password=b"key-secret"):
    key = serialization.load_pem_private_key(certified.key.read_bytes(), None)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(password),
        )
    )
    return path


# File formats of certificates and keys


@pytest.mark.parametrize("form", ["pem", "pkcs12", "jks", "text", "encrypted text"])
def test_listener_loads_certificate_from_each_format_of_key_store(certificates, tmp_path, form):
    own = certificates.server
    chain = own.certificate.read_text()
    options = {
        "pem": lambda: {"ssl_keystore_location": str(own.pem)},
        "pkcs12": lambda: {"ssl_keystore_location": str(own.store), "ssl_keystore_password": PASSWORD},
        "jks": lambda: {
            "ssl_keystore_location": str(jks_store(own, tmp_path / "broker.jks")),
            "ssl_keystore_password": PASSWORD,
        },
        "text": lambda: {"ssl_keystore_certificate_chain": chain, "ssl_keystore_key": own.key.read_text()},
        "encrypted text": lambda: {
            "ssl_keystore_certificate_chain": chain,
            "ssl_keystore_key": encrypted_key(own, tmp_path / "key").read_text(),
            "ssl_key_password": "key-secret",
        },
    }[form]()
    assert meet(believe(certificates), listener(**options)) == {}


@pytest.mark.parametrize("form", ["file", "der", "folder", "text", "pkcs12", "jks"])
def test_client_loads_trusted_cas_from_each_format_of_trust_store(certificates, tmp_path, form):
    authority = certificates.authority
    if form == "folder":
        (tmp_path / "ours.pem").write_bytes(authority.certificate.read_bytes())
        (tmp_path / "README").write_text("no certificate")
    (tmp_path / "ca.der").write_bytes(der_of(authority.certificate))
    options = {
        "file": {"ssl_ca_location": str(authority.certificate)},
        "der": {"ssl_ca_location": str(tmp_path / "ca.der")},
        "folder": {"ssl_ca_location": str(tmp_path)},
        "text": {"ssl_ca_pem": authority.certificate.read_text()},
        "pkcs12": {"ssl_truststore_location": str(authority.store), "ssl_truststore_password": PASSWORD},
        "jks": {
            "ssl_truststore_location": str(jks_trust(authority, tmp_path / "trust.jks")),
            "ssl_truststore_password": PASSWORD,
        },
    }[form]
    assert meet(client(**options), serve(certificates)) == {}


def test_trusted_leaf_certificate_needs_no_issuer(certificates):
    leaf = certificates.server.certificate.read_text()
    assert meet(client(ssl_ca_pem=leaf[: leaf.index("-----END") + 26]), serve(certificates)) == {}


def test_client_without_trust_store_rejects_a_private_ca(certificates):
    for options in ({}, {"ssl_ca_location": "probe"}):
        assert meet(client(**options), serve(certificates))["client"] == "CERTIFICATE_VERIFY_FAILED"


def test_temporary_key_file_is_deleted(certificates, tmp_path, monkeypatch):
    made = []
    real = os.open
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(os, "open", lambda path, *rest: made.append((str(path), rest)) or real(path, *rest))
    listener(ssl_keystore_location=str(certificates.server.store), ssl_keystore_password=PASSWORD)
    assert [rest[1] for path, rest in made if path.startswith(str(tmp_path))] == [0o600]
    assert list(tmp_path.iterdir()) == []


def test_plaintext_protocol_has_no_tls():
    assert tls_of(ClientSecurityConfig()) is None
    assert tls_of(ClientSecurityConfig(security_protocol="SASL_PLAINTEXT")) is None


# Verification of clients and brokers


def test_listener_requests_client_certificates_as_configured(certificates):
    trusted = {
        "ssl_certificate_location": str(certificates.alice.certificate),
        "ssl_key_location": str(certificates.alice.key),
    }
    stranger = certificates.foreign()
    unknown = {"ssl_certificate_location": str(stranger.certificate), "ssl_key_location": str(stranger.key)}
    trust = {"ssl_truststore_certificates": certificates.authority.certificate.read_text()}
    found = {
        auth: [
            meet(believe(certificates, **shown), serve(certificates, ssl_client_auth=auth, **trust)).get("server")
            for shown in ({}, trusted, unknown)
        ]
        for auth in ("none", "requested", "required")
    }
    assert found == {
        "none": [None, None, None],
        "requested": [None, None, "CERTIFICATE_VERIFY_FAILED"],
        "required": ["PEER_DID_NOT_RETURN_A_CERTIFICATE", None, "CERTIFICATE_VERIFY_FAILED"],
    }


def test_broker_host_name_is_verified_by_default(certificates):
    server = serve(certificates)
    assert meet(believe(certificates), server, "127.0.0.1") == {}
    assert meet(believe(certificates), server, "elsewhere")["client"] == "CERTIFICATE_VERIFY_FAILED"
    for algorithm in ("none", ""):
        unchecked = believe(certificates, ssl_endpoint_identification_algorithm=algorithm)
        assert meet(unchecked, server, "elsewhere") == {}
    assert meet(client(enable_ssl_certificate_verification=False), server, "elsewhere") == {}


def test_tls_versions_and_cipher_suites_are_set_by_options(certificates):
    def negotiated(**options):
        pair = TlsPair(believe(certificates), serve(certificates, **options)).shake()
        return pair.server._object.version(), pair.server._object.cipher()[0]

    assert negotiated()[0] == "TLSv1.3"
    assert negotiated(ssl_enabled_protocols=["TLSv1.2"])[0] == "TLSv1.2"
    java = ["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"]
    assert negotiated(ssl_cipher_suites=java) == ("TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256")
    assert negotiated(ssl_cipher_suites=["ECDHE+AESGCM"])[0] == "TLSv1.3"
    assert negotiated(ssl_cipher_suites=["TLS_AES_256_GCM_SHA384"])[0] == "TLSv1.3"
    assert negotiated(ssl_cipher_suites=["TLS_AES_256_GCM_SHA384", *java])[0] == "TLSv1.3"


def test_cipher_suites_accept_java_names():
    assert openssl_name("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384") == "ECDHE-RSA-AES256-GCM-SHA384"
    assert openssl_name("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256") == "ECDHE-RSA-CHACHA20-POLY1305"
    assert openssl_name("TLS_DHE_RSA_WITH_AES_128_CBC_SHA") == "DHE-RSA-AES128-SHA"
    assert openssl_name("TLS_RSA_WITH_AES_256_CBC_SHA256") == "AES256-SHA256"
    assert openssl_name("ECDHE-RSA-AES256-GCM-SHA384") == "ECDHE-RSA-AES256-GCM-SHA384"
    cipher_names = {cipher["name"] for cipher in ssl.create_default_context().get_ciphers()}
    assert {openssl_name("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"), "ECDHE-RSA-AES128-SHA256"} <= cipher_names


# Unusable options and files


def test_invalid_cipher_suites_raise_config_error(certificates):
    assert refused(serve, certificates=certificates, ssl_cipher_suites=["NO-SUCH"]) == (
        "ssl.cipher.suites: unknown cipher suite 'NO-SUCH'"
    )
    only_older = {"ssl_cipher_suites": ["ECDHE-RSA-AES256-GCM-SHA384"], "ssl_enabled_protocols": ["TLSv1.3"]}
    assert "no cipher suite in this list belongs to a version in ssl.enabled.protocols" in refused(
        serve, certificates=certificates, **only_older
    )


def test_error_for_tls_listener_without_certificate_names_option():
    assert "set ssl.keystore.location" in refused(listener)


def test_error_for_missing_store_file_names_option(tmp_path):
    missing = str(tmp_path / "gone.p12")
    message = f"ssl.keystore.location={missing}: cannot read this file: No such file or directory"
    assert refused(listener, ssl_keystore_location=missing) == message
    assert refused(client, ssl_ca_location=missing) == message.replace("keystore", "ca")
    words = refused(client, ssl_certificate_location=__file__, ssl_key_location=missing)
    assert words == message.replace("keystore", "key")


@pytest.mark.parametrize("password", ["wrong", None])
@pytest.mark.parametrize("kind", ["pkcs12", "jks"])
def test_error_for_wrong_or_missing_store_password_names_option(certificates, tmp_path, kind, password):
    store = certificates.server.store if kind == "pkcs12" else jks_store(certificates.server, tmp_path / "own.jks")
    password_option = {} if password is None else {"ssl_keystore_password": password}
    ending = "it is encrypted: set ssl.keystore.password" if password is None else "ssl.keystore.password is wrong"
    assert (
        refused(listener, ssl_keystore_location=str(store), **password_option)
        == f"ssl.keystore.location={store}: {ending}"
    )


def test_trust_store_password_has_its_own_option(certificates, tmp_path):
    for store in (certificates.authority.store, jks_trust(certificates.authority, tmp_path / "trust.jks")):
        words = refused(client, ssl_truststore_location=str(store), ssl_truststore_password="wrong")
        assert words == f"ssl.truststore.location={store}: ssl.truststore.password is wrong"


def test_private_key_in_jks_store_may_have_its_own_password(certificates, tmp_path):
    store = jks_store(certificates.server, tmp_path / "own.jks", key_password="key-secret")
    store_options = {"ssl_keystore_location": str(store), "ssl_keystore_password": PASSWORD}
    assert meet(believe(certificates), listener(**store_options, ssl_key_password="key-secret")) == {}
    assert refused(listener, **store_options).endswith("ssl.key.password does not decrypt the private key")


def test_encrypted_private_key_needs_its_password(certificates, tmp_path):
    own = {"ssl_certificate_location": str(certificates.alice.certificate)}
    key = {"ssl_key_location": str(encrypted_key(certificates.alice, tmp_path / "key.pem"))}
    assert refused(client, **own, **key).endswith("the private key is encrypted: set ssl.key.password")
    words = refused(client, **own, **key, ssl_key_password="wrong")
    assert words.endswith("ssl.key.password does not decrypt the private key")
    assert "ssl.certificate.location=" in words


def test_private_key_of_another_certificate_is_rejected(certificates):
    options = {
        "ssl_certificate_location": str(certificates.alice.certificate),
        "ssl_key_location": str(certificates.bob.key),
    }
    assert "the private key does not belong to the certificate" in refused(client, **options)


def test_certificate_alone_and_private_key_alone_are_rejected(certificates):
    alice = certificates.alice
    words = refused(client, ssl_certificate_location=str(alice.certificate))
    assert words.endswith("this key store has no private key")
    assert "ssl.key.location needs ssl.certificate.location" in refused(client, ssl_key_location=str(alice.key))
    assert refused(listener, ssl_keystore_location=str(alice.certificate)).endswith("this key store has no private key")
    assert refused(listener, ssl_keystore_location=str(alice.key)).endswith("this key store has no certificate")
    trust = {"ssl_keystore_location": str(certificates.authority.store), "ssl_keystore_password": PASSWORD}
    assert refused(listener, **trust).endswith("this key store has no private key with a certificate")


def test_expired_certificate_is_rejected(certificates):
    expired = certificates.expired("alice")
    words = refused(client, ssl_certificate_location=str(expired.certificate), ssl_key_location=str(expired.key))
    assert "its certificate (CN=alice,OU=tests,O=Kohort) expired on 20" in words


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "it is neither PEM, PKCS12 nor JKS"),
        (b"hello", "it is neither PEM, PKCS12 nor JKS"),
        (b"\x30\x82\x01", "invalid PKCS12"),
        (b"\xfe\xed\xfe\xed\0\0\0\2\0\0\0\1\0", "invalid JKS"),
        (b"\xce\xce\xce\xce", "JCEKS is not supported: convert it to PKCS12 (keytool"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "it has a damaged certificate"),
    ],
)
def test_unknown_key_store_format_is_rejected(tmp_path, data, words):
    path = tmp_path / "store"
    path.write_bytes(data)
    message = refused(client, ssl_truststore_location=str(path), ssl_truststore_password=PASSWORD)
    assert message.startswith(f"ssl.truststore.location={path}: {words}")


def test_trust_store_folder_without_certificates_is_rejected(tmp_path):
    assert "no certificate in the folder" in refused(client, ssl_ca_location=str(tmp_path))


def test_damaged_key_store_raises_config_error(certificates, tmp_path):
    path = tmp_path / "store"
    stores = [certificates.server.store, certificates.server.pem, jks_store(certificates.server, tmp_path / "own.jks")]
    for store in stores:
        whole = store.read_bytes()
        for end in range(1, len(whole), max(1, len(whole) // 25)):
            path.write_bytes(whole[:end])
            refused(listener, ssl_keystore_location=str(path), ssl_keystore_password=PASSWORD)


def test_pem_certificates_need_no_extra_package(certificates):
    program = """
import sys
for package in ("cryptography", "jks"):
    sys.modules[package] = None
from kohort.aio.tls.contexts import server_context
from kohort.config import parse_config
from kohort.config.listener_security import ListenerConfig
from kohort.errors import MissingExtra
pem, store = sys.argv[1:]
server_context(parse_config(ListenerConfig, {"ssl.keystore.location": pem}))
for options in (
    {"ssl.keystore.location": pem, "ssl.client.auth": "required"},
    {"ssl.keystore.location": store, "ssl.keystore.password": "x"},
):
    try:
        server_context(parse_config(ListenerConfig, options))
    except MissingExtra as error:
        print(error)
"""
    own = certificates.server
    ran = subprocess.run(
        [sys.executable, "-c", program, str(own.pem), str(own.store)], capture_output=True, text=True, check=True
    )
    install = "needs the package cryptography: pip install 'kohort[security]'"
    assert f"ssl.client.auth=required {install}\n" in ran.stdout
    assert f"PKCS12 {install}\n" in ran.stdout


def test_tilde_in_path_of_tls_file_means_home_folder(certificates, monkeypatch):
    monkeypatch.setenv("HOME", str(Path(certificates.authority.certificate).parent))
    assert meet(client(ssl_ca_location="~/ca.pem"), serve(certificates)) == {}
