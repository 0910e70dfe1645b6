"""W3C's profiles for HTTP: which descriptions claim them, and that each claim of judges/profile_assertions.csv has its test."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from appbackplane.runtime.things.directory.validation import faults_of
from appbackplane.runtime.things.web.forms import PROFILES, description_of

ROOT = Path(__file__).parents[4]
#: Assertions that the best published gateway fulfils.
BEST_PUBLISHED = 55
#: Texts to consider: no test shows that somebody has.
CONSIDERATIONS = {"privacy-considerations-1", "security-considerations-1"}
MODEL: Mapping[str, Any] = {
    "@context": ["https://www.w3.org/2022/wot/td/v1.1", {"@language": "en"}],
    "@type": ["tm:ThingModel"],
    "title": "Lamp",
    "properties": {"level": {"observable": True}, "serial": {"readOnly": True}},
    "actions": {"fade": {"synchronous": False}, "flash": {"synchronous": True}},
    "events": {"burnt_out": {}},
}


def assertions() -> list[dict[str, str]]:
    """W3C's list: the id, whom it obliges, how much, our test, and why there is none."""
    with (ROOT / "tests/system/judges/profile_assertions.csv").open() as file:
        return list(csv.DictReader(file))


def test_each_claim_has_a_test_and_each_gap_a_reason() -> None:
    """More is claimed than any published gateway does."""
    rows = assertions()
    assert len({row["ID"] for row in rows}) == len(rows)
    for row in rows:
        assert row["Of"] in ("thing", "consumer", "webhook") and row["Level"] in ("must", "should", "may"), row
        if row["Test"]:
            path, _, name = row["Test"].partition("::")
            assert f"\ndef {name}(" in (ROOT / path).read_text(), f"{row['ID']}: there is no test {name} in {path}"
        else:
            assert row["Reason"], f"{row['ID']}: claim it with a test, or say why not"
    assert len([row for row in rows if row["Test"]]) > BEST_PUBLISHED


def test_no_obligation_of_a_thing_is_missing() -> None:
    """What the claimed profiles demand of things is claimed one by one: else no description could name a profile."""
    unclaimed = {
        row["ID"] for row in assertions() if (row["Of"], row["Level"]) == ("thing", "must") and not row["Test"]
    }
    assert unclaimed == CONSIDERATIONS


@pytest.mark.parametrize("security", ["bearer", "basic", "nosec"])
def test_a_description_claims_profiles_if_they_know_its_security(security: str) -> None:
    """Clients of the profiles have no bearer tokens."""
    td = description_of("urn:a", MODEL, "http://here/", "1", security=security)
    assert faults_of(td, 0) == []
    assert td.get("profile") == (None if security == "bearer" else [*PROFILES])


@pytest.mark.parametrize(
    ("permitted", "operations"),
    [
        ({"read serial"}, {"readallproperties"}),
        ({"write level"}, {"writemultipleproperties"}),
        ({"observe level"}, {"observeallproperties", "unobserveallproperties"}),
        ({"observe burnt_out"}, {"subscribeallevents", "unsubscribeallevents"}),
        ({"invoke fade"}, {"queryallactions"}),
        ({"invoke flash"}, set()),
    ],
)
def test_what_can_be_done_with_all_is_offered_where_it_can_be_done_with_one(
    permitted: set[str], operations: set[str]
) -> None:
    """By the reader's permissions."""
    td = description_of(
        "urn:a", MODEL, "http://here/", "1", security="nosec", permits=lambda kind, name: f"{kind} {name}" in permitted
    )
    assert {op for form in td.get("forms", ()) for op in form["op"]} == operations
