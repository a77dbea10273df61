"""The service accounts of the guide on permissions, with the roles that it documents, on either cluster.

Everything is read from the page: a role that is too small there fails here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import yaml

from airflow_dispatch.kube import paths
from airflow_dispatch.kube.client import KubeClient
from airflow_dispatch.kube.config import ClusterConfig
from airflow_dispatch.localcluster import LocalCluster
from airflow_dispatch.localcluster.apiserver.access import User
from airflow_dispatch.localcluster.apiserver.errors import ApiError
from airflow_dispatch.localcluster.client import MERGE_PATCH, HttpApi
from airflow_dispatch.localcluster.resources import SERVICE_ACCOUNTS, Resource
from airflow_dispatch.localcluster.thread import ClusterThread
from tests.support.pages import blocks

Document = dict[str, Any]

WORKER: Final = "airflow-worker"
TRIGGERER: Final = "airflow-triggerer"

_GROUP: Final = "rbac.authorization.k8s.io"
_RBAC: Final = {
    kind: Resource(_GROUP, "v1", f"{kind.lower()}s", kind, kind.lower(), namespaced=not kind.startswith("Cluster"))
    for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
}
_KINDS: Final = {each.plural: each for each in vars(paths).values() if isinstance(each, paths.Resource)}
_SECONDS: Final = 20.0


class Verb(NamedTuple):
    """One verb on one resource (``pods/log``), as a rule of a Role, or of a ClusterRole, gives it."""

    kind: str
    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"

    @property
    def qualified(self) -> str:
        """As messages name it: ``get trainjobs.trainer.kubeflow.org``."""
        return f"{self}.{self.group}" if self.group else str(self)


def documented() -> list[Document]:
    """All manifests of the guide, as they stand there."""
    texts = [text for page, text in blocks("yaml") if page.endswith("guides/permissions.md")]
    return [document for text in texts for document in yaml.safe_load_all(text)]


def verbs_of(account: str) -> list[Verb]:
    """Every verb of every rule that the guide gives a service account."""
    return [
        Verb(role["kind"], group, resource, verb)
        for role in _roles_of(documented(), account)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


def _roles_of(documents: Sequence[Document], account: str) -> list[Document]:
    """The roles to which bindings bind a service account."""
    bound = [
        (document["roleRef"]["kind"], document["roleRef"]["name"])
        for document in documents
        if document["kind"].endswith("Binding") and any(each["name"] == account for each in document["subjects"])
    ]
    return [each for each in documents if (each["kind"], each["metadata"]["name"]) in bound]


def _settled(documents: Iterable[Document], namespace: str) -> list[Document]:
    """The manifests for one namespace: accounts and jobs live in it, and what is cluster-wide has its name in it."""
    return [_in_namespace(document, namespace) for document in documents]


def _in_namespace(document: Document, namespace: str) -> Document:
    def named(kind: str, name: str) -> str:
        return f"{name}-{namespace}" if kind.startswith("Cluster") else name

    kind = document["kind"]
    metadata = {**document["metadata"], "name": named(kind, document["metadata"]["name"])}
    if "namespace" in metadata:
        metadata["namespace"] = namespace
    moved = {**document, "metadata": metadata}
    if kind.endswith("Binding"):
        role = document["roleRef"]
        moved["roleRef"] = {**role, "name": named(role["kind"], role["name"])}
        moved["subjects"] = [{**each, "namespace": namespace} for each in document["subjects"]]
    return moved


def _without(documents: Iterable[Document], roles: Sequence[Document], missing: Verb) -> list[Document]:
    return [_lessened(each, missing) if each in roles and each["kind"] == missing.kind else each for each in documents]


def _lessened(role: Document, missing: Verb) -> Document:
    rules = [
        {**rule, "verbs": [verb for verb in rule["verbs"] if verb != missing.verb]}
        if missing.group in rule["apiGroups"] and missing.resource in rule["resources"]
        else rule
        for rule in role["rules"]
    ]
    return {**role, "rules": [rule for rule in rules if rule["verbs"]]}


class Authority(Protocol):
    """Who decides on a cluster what an account may do."""

    async def account(self, namespace: str, name: str) -> str:
        """Makes a service account; returns a token of it."""
        ...

    async def apply(self, documents: Sequence[Document]) -> None:
        """Makes roles and bindings, or changes them to what the documents say."""
        ...


class RbacAuthority:
    """RBAC objects and the TokenRequest API."""

    def __init__(self, administrator: Path) -> None:
        self._administrator = administrator

    async def account(self, namespace: str, name: str) -> str:
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        async with await HttpApi.connect(self._administrator) as api:
            await api.create(SERVICE_ACCOUNTS, namespace, {"metadata": {"name": name}})
            answer = await api.create(SERVICE_ACCOUNTS, namespace, request, name=name, subresource="token")
        return str(answer["status"]["token"])

    async def apply(self, documents: Sequence[Document]) -> None:
        async with await HttpApi.connect(self._administrator) as api:
            for document in documents:
                resource, metadata = _RBAC[document["kind"]], document["metadata"]
                try:
                    await api.create(resource, metadata.get("namespace"), document)
                except ApiError as error:
                    if error.code != HTTPStatus.CONFLICT:
                        raise
                    where = metadata.get("namespace"), metadata["name"]
                    await api.patch(resource, *where, document, content_type=MERGE_PATCH)


class EmbeddedAuthority:
    """The embedded cluster has no RBAC objects: its users get the rules of the roles that they are bound to."""

    def __init__(self, cluster: ClusterThread) -> None:
        self._cluster = cluster
        self._users: dict[str, User] = {}

    async def account(self, namespace: str, name: str) -> str:
        def add(running: LocalCluster) -> User:
            return running.server.access.add_user(f"system:serviceaccount:{namespace}:{name}", [])

        user: User = await asyncio.to_thread(self._cluster.read, add)
        self._users[name] = user
        return user.token

    async def apply(self, documents: Sequence[Document]) -> None:
        for name, user in self._users.items():
            rules = [
                {**rule, "namespaces": [role["metadata"]["namespace"]]} if role["kind"] == "Role" else rule
                for role in _roles_of(documents, name)
                for rule in role["rules"]
            ]

            def change(running: LocalCluster, user: User = user, rules: list[Document] = rules) -> None:
                running.server.access.set_rules(user, rules)

            await asyncio.to_thread(self._cluster.read, change)


class Accounts:
    """The service accounts in one namespace; ``configs`` is how each of them reaches the cluster."""

    def __init__(self, authority: Authority, namespace: str, configs: dict[str, ClusterConfig]) -> None:
        self._authority = authority
        self._documents = _settled(documented(), namespace)
        self._namespace = namespace
        self.configs = configs

    @classmethod
    async def create(cls, authority: Authority, namespace: str, administrator: Path, folder: Path) -> Accounts:
        """Makes them in a namespace that is there, and writes their kubeconfigs into a folder."""
        kubeconfig = yaml.safe_load(await asyncio.to_thread(administrator.read_text))
        configs = {}
        for name in (WORKER, TRIGGERER):
            kubeconfig["users"][0]["user"] = {"token": await authority.account(namespace, name)}
            path = folder / f"{name}.kubeconfig"
            await asyncio.to_thread(path.write_text, yaml.safe_dump(kubeconfig))
            configs[name] = ClusterConfig(kubeconfig=str(path))
        accounts = cls(authority, namespace, configs)
        await authority.apply(accounts._documents)
        await accounts._until(WORKER, verbs_of(WORKER)[-1], allowed=True)
        await accounts._until(TRIGGERER, verbs_of(TRIGGERER)[-1], allowed=True)
        return accounts

    @contextlib.asynccontextmanager
    async def without(self, account: str, *missing: Verb) -> AsyncIterator[None]:
        """Takes verbs away from an account, and gives them back."""
        documents = self._documents
        for verb in missing:
            documents = _without(documents, _roles_of(documents, account), verb)
        await self._authority.apply(documents)
        try:
            for verb in missing:
                await self._until(account, verb, allowed=False)
            yield
        finally:
            await self._authority.apply(self._documents)
            for verb in missing:
                await self._until(account, verb, allowed=True)

    async def _until(self, account: str, asked: Verb, *, allowed: bool) -> None:
        """Returns when the cluster has taken notice: its authorizer watches the roles."""
        plural, _, subresource = asked.resource.partition("/")
        resource = _KINDS[plural]
        namespace = self._namespace if resource.namespaced else None
        async with asyncio.timeout(_SECONDS), await KubeClient.connect(self.configs[account]) as client:
            may = not allowed
            while may is not allowed:
                may = await client.can_i(asked.verb, resource, namespace, subresource)
