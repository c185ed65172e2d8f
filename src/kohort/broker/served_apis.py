"""Which APIs a broker serves, and how far: all that there are, or what the release had that it stands in for.

``kohort.as.version`` caps both what is shown and what is answered. The lowest version of each API stays: what only
clients before 2.1 spoke is not here (KIP-896).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from kohort.config.kafka_releases import NEWEST, Feature, features, highest_version, is_at_least
from kohort.wire.apis import Api

FIRST_WITH_FEATURES: Final = "3.3"
FIRST_THAT_NAMES_ITS_VERSIONS: Final = "2.4"
FEATURE_NEEDS: Final = {"group.version": 68, "share.version": 76, "streams.version": 88}
"""The APIs without which a feature is none, by API key."""


@dataclass(frozen=True, slots=True)
class ServedApis:
    """What a broker tells of itself, and holds to."""

    by_key: Mapping[int, Api]
    features: Mapping[str, Feature]
    features_epoch: int
    """-1 without features: ApiVersions leaves them out."""
    names_its_versions: bool
    """Whether who asks for too high a version of ApiVersions is told which there are (KIP-511)."""

    def get(self, key: int) -> Api | None:
        """Return an API that is served."""
        return self.by_key.get(key)


def served_as(apis: Mapping[int, Api], release: str) -> ServedApis:
    """Return what of ``apis`` a broker serves that stands in for ``release`` of Apache Kafka."""
    capped = {}
    for key, api in apis.items():
        highest = api.high if release == NEWEST else highest_version(key, release)
        if highest is not None and highest >= api.low:
            capped[key] = api if highest >= api.high else replace(api, high=highest)
    shown = {n: f for n, f in features(release).items() if n not in FEATURE_NEEDS or FEATURE_NEEDS[n] in capped}
    epoch = 0 if is_at_least(release, FIRST_WITH_FEATURES) else -1
    return ServedApis(capped, shown, epoch, is_at_least(release, FIRST_THAT_NAMES_ITS_VERSIONS))
