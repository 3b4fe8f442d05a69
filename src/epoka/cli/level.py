"""`epoka level`: the rung of the feature ladder that a cluster is on, and the step to a higher one."""

from __future__ import annotations

from pathlib import Path

import msgspec

from epoka.cli.brokers import asking, check
from epoka.cli.output import EXIT_GOOD, Failed, say, say_json, table, usage
from epoka.client.cluster import ClusterClient
from epoka.model.levels import FEATURE_NAME, FeatureLevel
from epoka.wire.messages.api_versions import ApiVersionsRequest
from epoka.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

TIMEOUT_MS = 30_000


class Feature(msgspec.Struct, frozen=True):
    feature: str
    level: int
    lowest: int
    highest: int
    name: str | None
    """What the level is called, where it has a name."""


def show_level(bootstrap: str | None, data: Path | None, json: bool) -> int:
    with asking(bootstrap, data) as client:
        features = _features(client)
    if json:
        say_json(features)
        return EXIT_GOOD
    own = next((each for each in features if each.feature == FEATURE_NAME), None)
    if own is not None:
        for level in FeatureLevel:
            mark = (
                "is here"
                if level == own.level
                else ""
                if level > own.highest
                else "can go"
                if level > own.level
                else "passed"
            )
            say(f"{int(level)}  {level.label:<15} {mark}".rstrip())
    others = [each for each in features if each.feature != FEATURE_NAME]
    if others:
        rows = [(each.feature, each.level, each.lowest, each.highest) for each in others]
        table(("feature", "level", "lowest", "highest"), rows)
    if not features:
        say("the cluster names no features")
    return EXIT_GOOD


def raise_level(level: str, bootstrap: str | None, data: Path | None, dry_run: bool, json: bool) -> int:
    try:
        wanted = FeatureLevel.parse(level)
    except ValueError as error:
        usage(str(error))
    with asking(bootstrap, data) as client:
        before = next((each for each in _features(client) if each.feature == FEATURE_NAME), None)
        if before is None:
            raise Failed("this cluster has no feature ladder; it is not Epoka")
        if wanted < before.level:
            raise Failed(f"the cluster is on level {FeatureLevel(before.level)}; levels only rise")
        update = FeatureUpdateKey(FEATURE_NAME, max_version_level=int(wanted))
        request = UpdateFeaturesRequest(TIMEOUT_MS, (update,), validate_only=dry_run)
        if wanted > before.level:
            answer = client.controller().ask(request, wait_ms=TIMEOUT_MS)
            check(answer.error_code, answer.error_message, "the level stays")
            for result in answer.results:
                check(result.error_code, result.error_message, "the level stays")
    old = FeatureLevel(before.level)
    if json:
        say_json({"old": old.label, "new": wanted.label, "dry_run": dry_run})
    elif wanted == old:
        say(f"the level is {old} already")
    else:
        say(f"the level could rise: {old} -> {wanted}" if dry_run else f"level {old} -> {wanted}")
    return EXIT_GOOD


def _features(client: ClusterClient) -> list[Feature]:
    asked = ApiVersionsRequest(client_software_name="epoka", client_software_version="1")
    answer = client.anyone().ask(asked)
    check(answer.error_code, None, "the features cannot be read")
    finalized = {each.name: each.max_version_level for each in answer.finalized_features}
    return [
        Feature(
            each.name,
            finalized.get(each.name, each.min_version),
            each.min_version,
            each.max_version,
            FeatureLevel(finalized.get(each.name, each.min_version)).label
            if each.name == FEATURE_NAME
            else None,
        )
        for each in sorted(answer.supported_features, key=lambda each: each.name)
    ]
