"""The page of the campaign of rebalances tells what was run, and holds what it promises."""

import importlib.util
from pathlib import Path

from support.campaign.right_causes import APACHE, OURS

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("campaign", ROOT / "lab" / "tools" / "campaign.py")
assert SPEC is not None
assert SPEC.loader is not None
campaign = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(campaign)


def test_campaign_tables_are_generated_from_stored_results():
    text = campaign.PAGE.read_text()
    assert campaign.page(text) == text, "run python lab/tools/campaign.py"


def test_campaign_page_has_both_brokers_with_required_shares():
    ours, apache = campaign.stored()
    assert (ours.ground, apache.ground) == (OURS, APACHE)
    assert min(ours.rebalances, apache.rebalances) >= 250
    assert ours.share_right >= 0.98
    assert ours.count("wrong", proof=True) == 0
    assert apache.share_right >= 0.9
    assert apache.count("wrong", sure=True) == 0
