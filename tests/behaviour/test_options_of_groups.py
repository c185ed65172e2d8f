import pytest

import kohort
from kohort import ApiError, ConfigResource, ErrorCode

SESSION = "consumer.session.timeout.ms"


def test_admin_sets_the_session_timeout_of_a_group():
    group = ConfigResource("group", "g")
    with kohort.Broker() as broker, kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_configs({group: {SESSION: "50000"}}).check()

        entry = admin.describe_configs([group]).check()[group][SESSION]
        assert (entry.value, entry.source, entry.is_default) == ("50000", "group", False)

        with pytest.raises(ApiError, match="must be in the range 45000 to 60000 inclusive") as refused:
            admin.alter_configs({group: {SESSION: "1"}}).check()
        assert refused.value.code == ErrorCode.INVALID_CONFIG
