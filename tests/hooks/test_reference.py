from __future__ import annotations

from typing import Any

import pytest

from airflow_dispatch.core.errors import InvalidJob
from airflow_dispatch.hooks.reference import JobReference

NAME = "dj-01k6njrfae0000000000000000-s2"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (NAME, JobReference("ml", NAME)),
        (f"other/{NAME}", JobReference("other", NAME)),
        ({"ref": f"other/{NAME}", "uid": "u-1"}, JobReference("other", NAME, "u-1")),
        (JobReference("other", NAME, "u-1").to_xcom(), JobReference("other", NAME, "u-1")),
    ],
)
def test_a_job_can_be_named_in_each_of_these_ways(value: Any, expected: JobReference) -> None:
    assert JobReference.parse(value, "ml") == expected


@pytest.mark.parametrize("value", ["", "train", f"a/b/{NAME}", None, {}, {"ref": 3}, 7])
def test_anything_else_is_refused_and_shown(value: Any) -> None:
    with pytest.raises(InvalidJob, match="names no TrainJob"):
        JobReference.parse(value, "ml")


def test_the_name_tells_job_and_submission() -> None:
    reference = JobReference("ml", NAME)

    assert (reference.job_id, reference.submission) == ("01K6NJRFAE0000000000000000", 2)
