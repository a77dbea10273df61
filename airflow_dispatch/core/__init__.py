"""The thinking: no I/O, no clock, no Airflow, no kubernetes package."""
