"""Any listener option is accepted, or rejected in one line without secrets."""

from hypothesis import given
from hypothesis import strategies as st

from kohort.config import BrokerConfig, parse_config
from kohort.config.listener_overrides import split_name
from kohort.config.listeners import advertised_of, check_listeners, listener_config, listeners_of
from kohort.config.server_properties import understand
from kohort.errors import ConfigError

NAMES = st.sampled_from(["INNER", "outer", "A.B", "SSL", "CONTROLLER", "", "é"])
HOSTS = st.sampled_from(["127.0.0.1", "::1", "[::1]", "h", "", "0.0.0.0", "[", "\0"])
PORTS = st.sampled_from(["0", "1", "2", "65535", "65536", "-1", "x", "", "9" * 5000, "٣"])
ENDPOINT = st.builds("{}://{}:{}".format, NAMES, HOSTS, PORTS) | st.text(max_size=20)
ENDPOINTS = st.lists(ENDPOINT, max_size=4).map(",".join)
PROTOCOLS = st.sampled_from(["PLAINTEXT", "SSL", "sasl_ssl", "SASL_PLAINTEXT", "TLS", ""])
RESTS = st.sampled_from(
    [
        "ssl.client.auth",
        "plain.sasl.jaas.config",
        "sasl.jaas.config",
        "ssl.key.password",
        "gssapi.sasl.jaas.config",
        "max.connections",
        "ssl.provider",
        "b.ssl.client.auth",
    ]
)
SECRET = "planted"


@st.composite
def options(draw: st.DrawFn) -> dict[str, str]:
    settings = {
        "listeners": draw(ENDPOINTS),
        "advertised.listeners": draw(ENDPOINTS),
        "listener.security.protocol.map": ",".join(draw(st.lists(st.builds("{}:{}".format, NAMES, PROTOCOLS)))),
        "inter.broker.listener.name": draw(NAMES),
    }
    for name, rest in draw(st.lists(st.tuples(NAMES, RESTS | st.text(max_size=12)), max_size=3)):
        settings[f"listener.name.{name.lower()}.{rest}"] = draw(st.sampled_from(["required", "1", SECRET]))
    return {name: settings[name] for name in draw(st.sets(st.sampled_from(sorted(settings))))}


@given(options())
def test_listener_option_is_accepted_or_rejected_in_one_line(settings):
    try:
        config = parse_config(BrokerConfig, understand(settings).options)
        check_listeners(config)
    except ConfigError as error:
        assert len(str(error).split("\n")) == 1  # noqa: PT017 - there may be none
        return
    assert SECRET not in repr(config)
    listeners = listeners_of(config)
    assert len({listener.name for listener in listeners}) == len(listeners)
    assert {listener.name for listener in advertised_of(config)} <= {listener.name for listener in listeners}
    for listener in listeners:
        for mechanism in ("", "PLAIN"):
            listener_config(config, listener.name, mechanism)


@given(st.text())
def test_a_name_is_split_without_loss(text):
    listener, rest = split_name(f"listener.name.{text}")

    assert f"{listener}.{rest}".rstrip(".") == f"{text[: len(text) - len(rest)].lower()}{rest}".rstrip(".")
