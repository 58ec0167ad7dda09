"""The profile as typed columns: schema, tables, and what is missing."""
