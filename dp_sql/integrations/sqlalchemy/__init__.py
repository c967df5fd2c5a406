"""SQLAlchemy: the dialect `dpsql://`, over the DB-API module."""
