"""The kubelet of the local cluster: nodes, their heartbeats, and pods as real processes or scripted ones."""

from __future__ import annotations

from airflow_dispatch.localcluster.kubelet.images import DEFAULT_IMAGES, PYTHON_IMAGE, Image, ImageTable
from airflow_dispatch.localcluster.kubelet.kubelet import Kubelet, KubeletLogs
from airflow_dispatch.localcluster.kubelet.names import PodNames
from airflow_dispatch.localcluster.kubelet.network import AddressPool, ClusterNetwork
from airflow_dispatch.localcluster.kubelet.node import DEFAULT_CAPACITY, NodeSpec
from airflow_dispatch.localcluster.kubelet.process import ProcessRuntime
from airflow_dispatch.localcluster.kubelet.runtime import Container, ContainerExit, ContainerSpec, Runtime, StartError
from airflow_dispatch.localcluster.kubelet.scripted import Script, ScriptedContainer, ScriptedRuntime

__all__ = [
    "DEFAULT_CAPACITY",
    "DEFAULT_IMAGES",
    "PYTHON_IMAGE",
    "AddressPool",
    "ClusterNetwork",
    "Container",
    "ContainerExit",
    "ContainerSpec",
    "Image",
    "ImageTable",
    "Kubelet",
    "KubeletLogs",
    "NodeSpec",
    "PodNames",
    "ProcessRuntime",
    "Runtime",
    "Script",
    "ScriptedContainer",
    "ScriptedRuntime",
    "StartError",
]
