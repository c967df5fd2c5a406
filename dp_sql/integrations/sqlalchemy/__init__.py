"""The SQLAlchemy dialect `dpsql`."""
