from __future__ import annotations

import re

from kubernetes.client import models

from airflow_dispatch.localcluster.apiserver.schema import types
from airflow_dispatch.localcluster.resources import ALL

PUBLISHED_NAMES = {"Event": "CoreV1Event", "EventSeries": "CoreV1EventSeries"}


def test_every_served_kind_is_described() -> None:
    assert {resource.kind for resource in ALL} <= set(types())


def test_every_type_that_is_referred_to_exists() -> None:
    scalars = {"str", "int", "float", "bool", "object"}
    referred = {re.sub(r"^(\[\]|\{\})+", "", kind) for fields in types().values() for kind in fields.values()}
    assert referred - scalars <= set(types())


def test_core_types_have_every_field_of_the_published_api() -> None:
    checked = 0
    for name, fields in types().items():
        model = getattr(models, PUBLISHED_NAMES.get(name, f"V1{name}"), None)
        if model is not None:
            assert set(model.attribute_map.values()) <= set(fields), name
            checked += 1
    assert checked > 100
