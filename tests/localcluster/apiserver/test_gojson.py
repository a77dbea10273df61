from __future__ import annotations

from airflow_dispatch.localcluster.apiserver.gojson import go_json


def test_fields_stand_in_the_order_of_their_types_and_maps_are_sorted() -> None:
    container = {"resources": {"limits": {"memory": "1", "cpu": "2"}}, "image": "i", "name": "node"}
    template = {
        "spec": {"containers": [container]},
        "metadata": {"annotations": {"name": "1", "image": "2"}, "labels": {}},
    }
    assert go_json([template]) == (
        '[{"metadata":{"labels":{},"annotations":{"image":"2","name":"1"}},'
        '"spec":{"containers":[{"name":"node","image":"i","resources":{"limits":{"cpu":"2","memory":"1"}}}]}}]'
    )
