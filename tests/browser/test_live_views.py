from __future__ import annotations

import pytest

from browser import walk

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
KAFKA, WHOLE = pytest.mark.kafka, pytest.mark.campaign
GROUPS = [
    pytest.param("ours", "classic", marks=WHOLE),
    ("ours", "consumer"),
    pytest.param("apache", "classic", marks=KAFKA),
    pytest.param("apache", "consumer", marks=[KAFKA, WHOLE]),
]
CLUSTERS = ["ours", pytest.param("apache", marks=KAFKA)]


@pytest.mark.parametrize(("cluster", "protocol"), GROUPS, indirect=["cluster"], scope="module")
def test_group_views_show_state_of_members(cluster, open_page, finds_nothing, protocol):
    page = open_page("/", at=cluster.console)
    page.locator("[data-mode=live][data-stream=open]").wait_for()

    walk.the_list(page, cluster, finds_nothing)
    walk.one_group(page, cluster, protocol, finds_nothing)


@pytest.mark.parametrize("cluster", CLUSTERS, indirect=True, scope="module")
def test_views_of_cluster_show_data_of_cluster(cluster, open_page, finds_nothing):
    page = open_page("/doctor", at=cluster.console)

    walk.the_cluster(page, cluster, finds_nothing)
