"""The API server of the local cluster: objects in memory, served over HTTPS as Kubernetes serves them."""
