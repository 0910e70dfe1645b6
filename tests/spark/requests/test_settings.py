"""Settings: what makes no sense is told at start, in a sentence that names it."""

from __future__ import annotations

from typing import Any

import pytest

from appbackplane.spark.requests.settings import settings_of
from appbackplane.transport.errors import InvalidArgument

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a misspelt one": ({"mastre": "local[2]"}, "no setting 'mastre' (did you mean 'master'?)"),
    "a strange one": (
        {"colour": 1},
        "no setting 'colour' (expected batch, code, master, slices, or a Spark setting)",
    ),
    "no master": ({"master": "localhost"}, "'localhost' is not a master: expected local[N]"),
    "a master that is a number": ({"master": 7077}, "Expected `str`, got `int` - at `$.master`"),
    "no batch": ({"batch": 0}, "batch = 0: expected 1 to 10,000 requests of a job"),
    "a word for a number": ({"slices": "many"}, "Expected `int`, got `str` - at `$.slices`"),
    "negative slices": ({"slices": -1}, "slices = -1: expected 1 to 10,000 tasks of a job, or 0"),
    "code in the air": ({"code": "mailed"}, "Invalid enum value 'mailed' - at `$.code`"),
    "Spark's own master": ({"spark.master": "local[2]"}, "write master, not spark.master"),
    "the inner table": ({"session": 1}, "no setting 'session'"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_makes_no_sense_is_refused(name: str) -> None:
    """Found out by Spark it would be a page of Java, after seconds; or nothing at all."""
    table, said = BAD[name]
    with pytest.raises(InvalidArgument) as caught:
        settings_of(table)
    assert str(caught.value).startswith("policy.spark: ")
    assert said in str(caught.value)


def test_what_is_sparks_goes_to_spark_as_it_writes_it() -> None:
    """All of it is text there."""
    found = settings_of({"master": "spark://head", "spark.executor.memory": "4g", "spark.executor.cores": 2})
    assert found.master == "spark://head"
    assert found.session == {"spark.executor.memory": "4g", "spark.executor.cores": "2"}
