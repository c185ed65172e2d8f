"""A secured broker for tests that need TLS or a login, with certificates and tokens."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import Encoding, pkcs12
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

from support.processes.served_broker import Served

USER, PASSWORD = "tester", "tester-secret"
SCRAM = "SCRAM-SHA-512"
AUDIENCE, ISSUER = "kafka", "https://issuer.example"
HOUR_S = 3600
MODULES = "org.apache.kafka.common.security"
PROTOCOLS = {"PLAINTEXT": "PLAINTEXT", "MUTUAL": "SSL", "PASSWORDS": "SASL_SSL", "TOKENS": "SASL_PLAINTEXT"}


@dataclass(frozen=True)
class Way:
    """Connection settings of one test: its test.conf and its environment."""

    bootstrap: str
    conf: dict[str, str]
    environment: dict[str, str]


@contextmanager
def secured_broker(folder: Path, *settings: str) -> Iterator[dict[str, Way]]:
    """Run a secured broker; yield the settings by test. Its files are in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    files = write_certificates(folder)
    with token_service() as (url, keys):
        jwks = folder / "jwks.json"
        jwks.write_text(json.dumps(keys))
        options = {
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in PROTOCOLS.items()),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": files["server"],
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": files["ca"],
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.passwords.sasl.enabled.mechanisms": SCRAM,
            "listener.name.tokens.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.tokens.oauthbearer.sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule "
            "required;",
            "listener.name.tokens.oauthbearer.sasl.server.callback.handler.class": f"{MODULES}.oauthbearer."
            "OAuthBearerValidatorCallbackHandler",
            "listener.name.tokens.sasl.oauthbearer.jwks.endpoint.url": jwks.as_uri(),
            "listener.name.tokens.sasl.oauthbearer.expected.audience": AUDIENCE,
            "listener.name.tokens.sasl.oauthbearer.expected.issuer": ISSUER,
        }
        words = [word for name in list(PROTOCOLS)[1:] for word in ("--listen", f"{name}://127.0.0.1:0")]
        words += [word for name, value in options.items() for word in ("--set", f"{name}={value}")]
        words += ["--add-scram", f"{SCRAM}=[name={USER},password={PASSWORD}]"]
        with Served(*words, *settings) as served:
            yield ways(served.ready["listeners"], files, url)


def ways(listeners: dict[str, str], files: dict[str, str], url: str) -> dict[str, Way]:
    """Return the connection settings by test."""
    return {
        "0097_ssl_verify": Way(
            listeners["MUTUAL"],
            {
                "security.protocol": "ssl",
                "ssl.ca.location": files["ca"],
                "ssl.key.location": files["SSL_priv_pem"],
                "ssl.key.password": PASSWORD,
                "ssl.certificate.location": files["SSL_pub_pem"],
            },
            {"SSL_password": PASSWORD, **{name: path for name, path in files.items() if name.startswith("SSL_")}},
        ),
        "0126_oauthbearer_oidc": Way(
            listeners["TOKENS"],
            {
                "security.protocol": "sasl_plaintext",
                "sasl.mechanisms": "OAUTHBEARER",
                "sasl.oauthbearer.method": "OIDC",
                "sasl.oauthbearer.client.id": USER,
                "sasl.oauthbearer.client.secret": PASSWORD,
                "sasl.oauthbearer.scope": "test",
                "sasl.oauthbearer.token.endpoint.url": f"{url}/valid",
            },
            {
                "VALID_OIDC_URL": f"{url}/valid",
                "INVALID_OIDC_URL": f"{url}/invalid",
                "EXPIRED_TOKEN_OIDC_URL": f"{url}/expired",
            },
        ),
        "0135_sasl_credentials": Way(
            listeners["PASSWORDS"],
            {
                "security.protocol": "sasl_ssl",
                "ssl.ca.location": files["ca"],
                "sasl.mechanisms": SCRAM,
                "sasl.username": USER,
                "sasl.password": PASSWORD,
            },
            {},
        ),
    }


def write_certificates(folder: Path) -> dict[str, str]:
    """Return the files of an authority, a broker and a client in the encodings of test 0097, by its names."""
    ca = trustme.CA()
    (signer,) = x509.load_pem_x509_certificates(ca.cert_pem.bytes())
    broker = ca.issue_cert("localhost", "127.0.0.1")
    client = ca.issue_cert("tester.example", common_name=USER)
    chain = x509.load_pem_x509_certificates(b"".join(pem.bytes() for pem in client.cert_chain_pems))
    key = serialization.load_pem_private_key(client.private_key_pem.bytes(), None)
    assert isinstance(key, pkcs12.PKCS12PrivateKeyTypes)
    hidden = serialization.BestAvailableEncryption(PASSWORD.encode())
    pkcs8 = serialization.PrivateFormat.PKCS8
    private = serialization.load_pem_private_key(broker.private_key_pem.bytes(), None)
    contents = {
        "ca": ca.cert_pem.bytes(),
        "server": private.private_bytes(Encoding.PEM, pkcs8, serialization.NoEncryption())
        + b"".join(pem.bytes() for pem in broker.cert_chain_pems),
        "SSL_pkcs": pkcs12.serialize_key_and_certificates(USER.encode(), key, chain[0], [signer], hidden),
        "SSL_pub_der": chain[0].public_bytes(Encoding.DER),
        "SSL_pub_pem": chain[0].public_bytes(Encoding.PEM),
        "SSL_priv_der": key.private_bytes(Encoding.DER, pkcs8, serialization.NoEncryption()),
        "SSL_priv_pem": key.private_bytes(Encoding.PEM, pkcs8, hidden),
        "SSL_ca_der": signer.public_bytes(Encoding.DER),
        "SSL_all_cas_pem": ca.cert_pem.bytes() + trustme.CA().cert_pem.bytes(),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return {name: str(folder / name) for name in contents}


@contextmanager
def token_service() -> Iterator[tuple[str, dict[str, object]]]:
    """Run an HTTP service of valid and invalid tokens, by path; yield its URL and public keys."""
    key = RSAKey.generate_key(2048, {"kid": "first", "use": "sig", "alg": "RS256"}, private=True)

    def token(path: str) -> str:
        now = int(time.time())
        begun = now - 2 * HOUR_S if path == "/expired" else now
        claims = {"sub": USER, "iss": ISSUER, "aud": AUDIENCE, "iat": begun, "exp": begun + HOUR_S}
        signed = jwt.encode({"alg": "RS256", "kid": "first"}, claims, key)
        return "invalid" if path == "/invalid" else signed

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = json.dumps({"access_token": token(self.path), "token_type": "Bearer", "expires_in": HOUR_S})
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_args: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        running = threading.Thread(target=server.serve_forever, daemon=True)
        running.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", dict(KeySet([key]).as_dict(private=False))
        finally:
            server.shutdown()
            running.join()
