from __future__ import annotations

import importlib
import json
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import airflow
import jsonschema
import pytest
from airflow.providers_manager import ProvidersManager

from airflow_dispatch.get_provider_info import get_provider_info

_AIRFLOW = Path(airflow.__file__).parent


def _schema(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((_AIRFLOW / name).read_text())
    return schema


def test_provider_info_passes_the_schema_that_airflow_checks_at_run_time() -> None:
    jsonschema.validate(get_provider_info(), _schema("provider_info.schema.json"))


@pytest.mark.parametrize("section", sorted(set(get_provider_info()) - {"package-name", "name", "description"}))
def test_each_section_passes_the_fuller_schema_of_provider_files(section: str) -> None:
    full = _schema("provider.yaml.schema.json")
    schema = {**full["properties"][section], "definitions": full.get("definitions", {})}

    jsonschema.validate(get_provider_info()[section], schema)


def test_the_package_name_is_the_distributions() -> None:
    assert get_provider_info()["package-name"] == distribution("airflow-provider-dispatch").name


@pytest.mark.parametrize("section", ["operators", "sensors", "hooks", "triggers"])
def test_every_module_it_names_can_be_imported_and_says_what_it_offers(section: str) -> None:
    for group in get_provider_info()[section]:
        for name in group["python-modules"]:
            module = importlib.import_module(name)
            assert all(hasattr(module, public) for public in module.__all__)


def test_airflow_finds_the_provider_and_its_triggers() -> None:
    manager = ProvidersManager()  # type: ignore[no-untyped-call]

    assert "airflow-provider-dispatch" in manager.providers
    assert "airflow_dispatch.triggers.trainjob" in {trigger.trigger_class_name for trigger in manager.trigger}


_COMMANDS = """
import sys
from airflow.__main__ import main
for command in ("list", "hooks", "triggers"):
    sys.argv = ["airflow", "providers", command, "--output", "plain"]
    main()
"""


def test_the_commands_list_the_provider_without_a_warning() -> None:
    done = subprocess.run([sys.executable, "-c", _COMMANDS], capture_output=True, text=True, check=True)

    assert "airflow-provider-dispatch" in done.stdout
    assert "airflow_dispatch.triggers.trainjob" in done.stdout
    assert "WARN" not in (done.stdout + done.stderr).upper()
