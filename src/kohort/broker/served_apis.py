"""APIs and versions that the broker serves: all, or those of the Kafka release in ``kohort.as.version``.

The lowest versions do not depend on the release: versions of clients before 2.1 are not implemented (KIP-896).
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


@dataclass(frozen=True, slots=True)
class ServedApis:
    by_key: Mapping[int, Api]
    features: Mapping[str, Feature]
    features_epoch: int
    """Epoch of the finalized features in ApiVersions; -1 without features."""
    names_its_versions: bool
    """True if an ApiVersions request of an unsupported version gets the supported versions (KIP-511)."""

    def get(self, key: int) -> Api | None:
        return self.by_key.get(key)


def served_as(apis: Mapping[int, Api], release: str) -> ServedApis:
    """Limit ``apis`` to the APIs and versions of a Kafka release."""
    capped = {}
    for key, api in apis.items():
        highest = api.high if release == NEWEST else highest_version(key, release)
        if highest is not None and highest >= api.low:
            capped[key] = api if highest >= api.high else replace(api, high=highest)
    shown = {n: f for n, f in features(release).items() if n not in FEATURE_NEEDS or FEATURE_NEEDS[n] in capped}
    epoch = 0 if is_at_least(release, FIRST_WITH_FEATURES) else -1
    return ServedApis(capped, shown, epoch, is_at_least(release, FIRST_THAT_NAMES_ITS_VERSIONS))
