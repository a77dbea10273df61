"""The only room that speaks HTTP to a cluster: configuration, client, watches and the hub that shares them."""
