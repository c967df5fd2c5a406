"""Sessions behind other interfaces: DB-API, SQLAlchemy, Superset."""
