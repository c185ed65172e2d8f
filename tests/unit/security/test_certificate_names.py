"""User names from certificates, equal to those of Apache Kafka's SslPrincipalMapper."""

import pytest

from kohort.errors import ConfigError
from kohort.security.certificate_names import NameRules

FOUR_RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, "
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, "
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, DEFAULT"
)


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_first_matching_mapping_rule_sets_the_user_name(subject, name):
    assert NameRules(FOUR_RULES).name(subject) == name


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("DEFAULT", "CN=x", "CN=x"),
        ("", "CN=x", None),
        ("RULE:^CN=(.*?)$/$1/", "C=DE", None),
        ("RULE:^CN=(.*?)$/$1/ , DEFAULT", "C=DE", "C=DE"),
        ("DEFAULT,RULE:^CN=(.*?)$/$1/", "CN=Bob", "CN=Bob"),
        ("RULE:^CN=(.*)$/$1/", "C=DE,CN=bob", None),
        ("RULE:CN=(.*?)/$1/", "CN=Bob", "Bob"),
        ("RULE:.*/x/", "CN=Bob", "xx"),  # the pattern matches the empty end of the text, too
        ("RULE:CN=(.*)/$1$2/", "CN=Bob", "Bob$2"),
        ("RULE:CN=(.*)/$12/", "CN=Bob", "Bob2"),
        (r"RULE:CN=(.*)/a\/b$1/", "CN=Bob", "a/bBob"),
        (r"RULE:CN=(.*)/\$1/", "CN=Bob", "$1"),
        (r"RULE:CN=a\/b/ok/", "CN=a/b", "ok"),
        ("RULE:CN=(.*),O=(.*)/$2,$1/U,DEFAULT", "CN=a,O=b", "B,A"),
        ("RULE:CN=a{1,2}/x/,DEFAULT", "CN=aa", "x"),
        ("DEFAULT,DEFAULT", "CN=a", "CN=a"),
        ("RULE:CN=.*//", "CN=a", ""),
        ("RULE:CN=(.*)/$1/,,DEFAULT", "CN=a", "a"),
        ("RULE:CN=(.*)/$1/,", "CN=a", "a"),
        ("RULE:CN=(?P<n>.*)/${n}/", "CN=a", "a"),
        ("RULE:CN=(.*)/$0/", "CN=a", "CN=a"),
        ("RULE: CN=(.*)/ $1 /L", "CN=a", None),
        ("RULE:(a)|(CN=b)/$1x$2/", "CN=b", "xCN=b"),
    ],
)
def test_mapping_rules_match_kafka(rules, subject, name):
    assert NameRules(rules).name(subject) == name


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "DEFAULT DEFAULT",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/L",
        "RULE:^CN=(.*?)$/$1/LU",
        "RULE:CN=(/x/",
        "RULE://x/",
        "RULE:CN=([/a-z]*)/$1/",
        "RULE:CN=(.*)/$/",
        "RULE:CN=(.*)/${nobody}/",
        "RULE:CN=(.*)/x\\",
        "RULE:(?=CN)(.*)/$1/",
    ],
)
def test_malformed_rule_error_has_the_option(rules):
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules: '"):
        NameRules(rules)
