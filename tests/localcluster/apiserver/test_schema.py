from __future__ import annotations

import re

from airflow_dispatch.localcluster.apiserver.schema import types
from airflow_dispatch.localcluster.resources import ALL
from tests.support.core_schema import generate


def test_every_served_kind_is_described() -> None:
    assert {resource.kind for resource in ALL} <= set(types())


def test_every_type_that_is_referred_to_exists() -> None:
    scalars = {"str", "int", "float", "bool", "object"}
    referred = {re.sub(r"^(\[\]|\{\})+", "", kind) for fields in types().values() for kind in fields.values()}
    assert referred - scalars <= set(types())


def test_core_types_have_every_field_of_the_published_api() -> None:
    for name, fields in generate().items():
        assert fields.items() <= types()[name].items(), name
