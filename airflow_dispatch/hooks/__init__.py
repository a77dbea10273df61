"""How Airflow reaches a cluster."""
