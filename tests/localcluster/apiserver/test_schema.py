from __future__ import annotations

import re

import kubernetes
import pytest

from airflow_dispatch.localcluster.apiserver.schema import types
from airflow_dispatch.localcluster.resources import ALL
from tests.support.core_schema import generate


def test_every_served_kind_is_described() -> None:
    assert {resource.kind for resource in ALL} <= set(types())


def test_every_type_that_is_referred_to_exists() -> None:
    scalars = {"str", "int", "float", "bool", "object"}
    referred = {re.sub(r"^(\[\]|\{\})+", "", kind) for fields in types().values() for kind in fields.values()}
    assert referred - scalars <= set(types())


@pytest.mark.skipif(int(kubernetes.__version__.partition(".")[0]) < 36, reason="the schema is that of Kubernetes 1.36")
def test_core_types_have_every_field_of_the_published_api() -> None:
    for name, fields in generate().items():
        assert fields.items() <= types()[name].items(), name
