"""Which cluster: explicit, alike on every host, and never with a secret in a message."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import ssl
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_dispatch.core.errors import ConfigurationError
from airflow_dispatch.kube import config as config_module
from airflow_dispatch.kube.config import ClusterConfig, Credentials, load_credentials

CONTENT: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "one",
    "clusters": [
        {"name": "one", "cluster": {"server": "https://one.invalid:6443/"}},
        {"name": "two", "cluster": {"server": "http://two.invalid"}},
    ],
    "users": [{"name": "u", "user": {"token": "s3cr3t"}}],
    "contexts": [
        {"name": "one", "context": {"cluster": "one", "user": "u"}},
        {"name": "two", "context": {"cluster": "two", "user": "u"}},
    ],
}


def load(config: ClusterConfig) -> Credentials:
    return asyncio.run(load_credentials(config, now=datetime.now(UTC)))


def test_a_kubeconfig_is_read_from_a_path_and_from_a_dict_alike(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(CONTENT))
    for config in (ClusterConfig(kubeconfig=str(path)), ClusterConfig(kubeconfig_dict=CONTENT)):
        found = load(config)
        assert (found.server, found.token, found.reload_at) == ("https://one.invalid:6443", "s3cr3t", None)
        assert found.tls is not None


def test_the_context_chooses_the_cluster() -> None:
    found = load(ClusterConfig(kubeconfig_dict=CONTENT, context="two"))
    assert (found.server, found.tls) == ("http://two.invalid", None)


def test_without_a_choice_the_default_kubeconfig_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(CONTENT))
    monkeypatch.setenv("KUBECONFIG", str(path))
    assert load(ClusterConfig()).server == "https://one.invalid:6443"


def test_a_missing_kubeconfig_names_path_and_host(tmp_path: Path) -> None:
    path = tmp_path / "none"
    with pytest.raises(ConfigurationError, match="there is no kubeconfig") as raised:
        load(ClusterConfig(kubeconfig=str(path)))
    assert str(path) in str(raised.value)
    assert socket.gethostname() in str(raised.value)


@pytest.mark.parametrize("text", ["{", "[]", "current-context: x", ""])
def test_a_broken_kubeconfig_names_path_and_host(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as raised:
        load(ClusterConfig(kubeconfig=str(path)))
    assert str(path) in str(raised.value)
    assert socket.gethostname() in str(raised.value)


def test_an_exec_plugin_gives_a_token_that_is_renewed_before_it_expires(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text(
        "#!/bin/sh\n"
        'echo \'{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",'
        ' "status": {"token": "fresh", "expirationTimestamp": "2099-01-01T00:00:00Z"}}\'\n'
    )
    plugin.chmod(0o700)
    exec_user = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": str(plugin),
        "interactiveMode": "Never",
    }
    found = load(ClusterConfig(kubeconfig_dict={**CONTENT, "users": [{"name": "u", "user": {"exec": exec_user}}]}))
    assert found.token == "fresh"
    assert found.reload_at is not None
    assert found.reload_at < datetime(2099, 1, 1, tzinfo=UTC)


def test_nothing_secret_is_shown() -> None:
    config = ClusterConfig(kubeconfig_dict=CONTENT)
    assert "s3cr3t" not in repr(config) + str(config) + repr(load(config))


def test_equal_configurations_are_one() -> None:
    assert len({ClusterConfig(kubeconfig_dict=CONTENT), ClusterConfig(kubeconfig_dict=dict(CONTENT))}) == 1
    assert ClusterConfig(context="a") != ClusterConfig(context="b")


def test_verification_can_be_switched_off() -> None:
    checked, unchecked = (
        load(ClusterConfig(kubeconfig_dict=CONTENT, verify_tls=verify)).tls for verify in (True, False)
    )
    assert checked is not None
    assert unchecked is not None
    assert (checked.verify_mode, checked.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert (unchecked.verify_mode, unchecked.check_hostname) == (ssl.CERT_NONE, False)


def test_a_broken_certificate_names_where_it_stands(tmp_path: Path) -> None:
    authority = base64.b64encode(b"no certificate").decode()
    cluster = {"server": "https://one.invalid", "certificate-authority-data": authority}
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump({**CONTENT, "clusters": [{"name": "one", "cluster": cluster}]}))
    with pytest.raises(ConfigurationError, match="a certificate of kubeconfig") as raised:
        load(ClusterConfig(kubeconfig=str(path)))
    assert str(path) in str(raised.value)
    assert socket.gethostname() in str(raised.value)


def test_outside_a_pod_the_service_account_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigurationError, match=r"the pod's service account .* on host"):
        load(ClusterConfig(in_cluster=True))


def test_a_missing_context_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"inline kubeconfig .*three"):
        load(ClusterConfig(kubeconfig_dict=CONTENT, context="three"))


def test_an_exec_plugin_that_fails_says_why(tmp_path: Path) -> None:
    plugin = script(tmp_path, "echo 'log in first' >&2; exit 3")
    with pytest.raises(ConfigurationError, match="log in first"):
        load(with_plugin(plugin))


def test_an_exec_plugin_that_waits_for_somebody_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_module, "LOAD_SECONDS", 0.2)
    pipe, number = tmp_path / "pipe", tmp_path / "number"
    os.mkfifo(pipe)
    plugin = script(tmp_path, f"echo $$ > {number}\nread answer < {pipe}")

    async def main() -> None:
        with pytest.raises(ConfigurationError, match=r"no answer from its exec plugin in 0\.2 s"):
            await load_credentials(with_plugin(plugin), now=datetime.now(UTC))
        await asyncio.to_thread(pipe.write_text, "let it end\n")
        while _is_there(int(number.read_text())):  # noqa: ASYNC110 (the event loop reaps it)
            await asyncio.sleep(0)
        for thread in threading.enumerate():
            if thread.name.startswith("asyncio-waitpid"):  # Python 3.11 reaps there, and tells the loop
                await asyncio.to_thread(thread.join)
        for _ in range(10):  # its pipes close
            await asyncio.sleep(0)

    asyncio.run(main())


def _is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_kubeconfig_with_dates_in_it_can_be_compared() -> None:
    content = yaml.safe_load("{expiry: 2026-01-01T00:00:00Z, clusters: []}")
    assert len({ClusterConfig(kubeconfig_dict=content), ClusterConfig(kubeconfig_dict=dict(content))}) == 1


def script(folder: Path, text: str) -> Path:
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return path


def with_plugin(path: Path) -> ClusterConfig:
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path), "interactiveMode": "Never"}}
    return ClusterConfig(kubeconfig_dict={**CONTENT, "users": [{"name": "u", "user": user}]})
