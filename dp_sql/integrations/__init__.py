"""Sessions behind other Python interfaces: DB-API (PEP 249), SQLAlchemy, Superset."""
