"""The control plane's certificates, tokens and kubeconfigs."""

from __future__ import annotations

import base64
import secrets
import ssl
from pathlib import Path
from typing import Any

import trustme
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa


class Certificates:
    """A throw-away CA and what it has issued, in files that only their owner can read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True)
        self._authority = trustme.CA(organization_name="real control plane")
        self.authority = self._write("ca.crt", self._authority.cert_pem.bytes())
        # A second CA signs the aggregator's requests: with one for both, the controllers log errors for ever.
        self.front_proxy_authority = self._write("front-proxy-ca.crt", trustme.CA().cert_pem.bytes())
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.service_account_key = self._write(
            "sa.key",
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            ),
        )
        self.service_account_public_key = self._write(
            "sa.pub",
            key.public_key().public_bytes(
                serialization.Encoding.PEM,
                serialization.PublicFormat.SubjectPublicKeyInfo,
            ),
        )

    @property
    def authority_data(self) -> str:
        """The CA's certificate as kubeconfigs and webhook configurations carry it."""
        return base64.b64encode(self.authority.read_bytes()).decode()

    def server(self, folder: str) -> Path:
        """A serving certificate for loopback; the folder holds ``tls.crt`` and ``tls.key``."""
        return self._issue(folder, self._authority.issue_cert("127.0.0.1", "localhost", "kubernetes.default.svc"))

    def server_context(self, folder: str) -> ssl.SSLContext:
        """For a server that takes none but clients with a certificate of ours."""
        serving = self.server(folder)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self.authority))
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(serving / "tls.crt", serving / "tls.key")
        return context

    def client(self, user: str, group: str | None = None) -> tuple[Path, Path]:
        """A client certificate: certificate and key. Kubernetes reads the user from CN and the group from O."""
        issued = self._authority.issue_cert("client.invalid", common_name=user, organization_name=group)
        folder = self._issue(f"client-{user.replace(':', '-')}", issued)
        return folder / "tls.crt", folder / "tls.key"

    def _issue(self, name: str, issued: trustme.LeafCert) -> Path:
        folder = self._folder / name
        folder.mkdir(mode=0o700)
        self._write(f"{name}/tls.crt", b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        self._write(f"{name}/tls.key", issued.private_key_pem.bytes())
        return folder

    def _write(self, name: str, data: bytes) -> Path:
        path = self._folder / name
        path.touch(mode=0o600)
        path.write_bytes(data)
        return path


def new_token() -> str:
    """A bearer token."""
    return secrets.token_hex(24)


def write_kubeconfig(path: Path, server: str, authority_data: str, user: dict[str, Any]) -> Path:
    """Writes a kubeconfig with one cluster and one user, readable by its owner alone."""
    path.touch(mode=0o600)
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "real",
                "clusters": [
                    {"name": "real", "cluster": {"server": server, "certificate-authority-data": authority_data}},
                ],
                "users": [{"name": "real", "user": user}],
                "contexts": [{"name": "real", "context": {"cluster": "real", "user": "real", "namespace": "default"}}],
            },
        ),
    )
    return path
