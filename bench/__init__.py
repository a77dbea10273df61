"""The figures that the documentation states."""
