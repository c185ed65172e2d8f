"""The authorizer, with its indexes, decides as one that looks at every ACL in turn."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

from hypothesis import example, given
from hypothesis import strategies as st

from kohort.security.acls import Acl, Operation, PatternType, Permission, Principal, ResourceType, user
from kohort.security.authorizer import DEFAULT_ALLOW, DEFAULT_DENY, SUPER_USER, Authorizer

TYPES = [ResourceType.TOPIC, ResourceType.GROUP]
OPERATIONS = [
    Operation.ALL, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER, Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
]  # fmt: skip
REQUESTED = OPERATIONS[1:]
NAMES = ["*", "*x", "a", "ab", "abc", "b", "ba"]
HOSTS = ["*", "10.0.0.1", "10.0.0.0/8", "::1", "no host at all", "1/2/3"]
WHO = ["User:alice", "User:bob", "User:*", "Group:alice"]
BOSS = user("boss")

ACLS = st.lists(
    st.builds(
        Acl,
        resource_type=st.sampled_from(TYPES),
        name=st.sampled_from(NAMES),
        pattern=st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
        principal=st.sampled_from(WHO),
        host=st.sampled_from(HOSTS),
        operation=st.sampled_from(OPERATIONS),
        permission=st.sampled_from([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
    ),
    max_size=12,
)
PRINCIPALS = st.sampled_from([user("alice"), user("bob"), user("carol"), BOSS, Principal("Group", "alice")])
ADDRESSES = st.sampled_from(["10.0.0.1", "10.9.9.9", "192.168.0.1", "::1", "strange"])


def speaks_of(acl: Acl, kind: ResourceType, name: str) -> bool:
    if acl.resource_type is not kind:
        return False
    return name.startswith(acl.name) if acl.pattern is PatternType.PREFIXED else acl.name in (name, "*")


def means(acl: Acl, who: Principal, host: str) -> bool:
    if acl.principal not in (f"{who.type}:{who.name}", f"{who.type}:*"):
        return False
    if acl.host in ("*", host):
        return True
    try:
        return "/" in acl.host and ip_address(host) in ip_network(acl.host, strict=False)
    except ValueError:
        return False


def naive(acls: list[Acl], who: Principal, host: str, operation: Operation, kind: ResourceType, name: str) -> bool:
    """Apply Kafka's authorization rules literally."""
    if who == BOSS:
        return True
    fitting = [acl for acl in acls if speaks_of(acl, kind, name) and means(acl, who, host)]
    if any(a.permission is Permission.DENY and a.operation in (Operation.ALL, operation) for a in fitting):
        return False
    implied = {
        Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
        Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
    }.get(operation, set())
    operations = {Operation.ALL, operation, *implied}
    return any(a.permission is Permission.ALLOW and a.operation in operations for a in fitting)


@given(
    ACLS,
    PRINCIPALS,
    ADDRESSES,
    st.sampled_from(REQUESTED),
    st.sampled_from(TYPES),
    st.sampled_from(NAMES),
    st.booleans(),
)
def test_it_decides_as_the_rules_say(acls, who, host, operation, kind, name, open_house):
    decided = Authorizer(acls, [BOSS], allow_if_no_acl=open_house).decide(who, host, operation, kind, name)

    is_undecided = open_house and not any(speaks_of(acl, kind, name) for acl in acls)
    assert decided.allowed == (naive(acls, who, host, operation, kind, name) or is_undecided)
    if isinstance(decided.rule, Acl):
        assert decided.rule in acls
        assert (decided.rule.permission is Permission.ALLOW) == decided.allowed
    else:
        assert decided.rule in ({SUPER_USER, DEFAULT_ALLOW} if decided.allowed else {DEFAULT_DENY})


def allow(name: str, pattern: PatternType = PatternType.LITERAL, permission: Permission = Permission.ALLOW) -> Acl:
    return Acl(ResourceType.TOPIC, name, pattern, "User:alice", "*", Operation.WRITE, permission)


@given(ACLS, PRINCIPALS, ADDRESSES)
@example([allow("z", PatternType.PREFIXED), allow("zzz", permission=Permission.DENY)], user("alice"), "::1")
@example([allow("a"), allow("*", permission=Permission.DENY)], user("alice"), "::1")
@example([allow("ab"), allow("a", PatternType.PREFIXED, Permission.DENY)], user("alice"), "::1")
def test_write_on_some_topic_is_what_no_denial_covers(acls, who, host):
    decided = Authorizer(acls, [BOSS]).decide_on_some(who, host, Operation.WRITE, ResourceType.TOPIC)

    mine = [
        acl
        for acl in acls
        if acl.resource_type is ResourceType.TOPIC
        and means(acl, who, host)
        and acl.operation in (Operation.WRITE, Operation.ALL)
    ]
    denials = [acl for acl in mine if acl.permission is Permission.DENY]
    everything = any(d.name == "*" and d.pattern is PatternType.LITERAL for d in denials)

    def is_covered(acl: Acl) -> bool:
        if acl.pattern is PatternType.LITERAL and acl.name == "*":
            return False
        return any(
            acl.name.startswith(d.name)
            if d.pattern is PatternType.PREFIXED
            else d.pattern is acl.pattern and d.name == acl.name
            for d in denials
        )

    is_allowed = any(acl.permission is Permission.ALLOW and not is_covered(acl) for acl in mine)
    assert decided.allowed == (who == BOSS or (is_allowed and not everything))
