"""Reports: one module a format, each a pure function of the report model."""
