"""The demo: a local cluster and an Airflow of separate services on this machine, and a training run through both."""
