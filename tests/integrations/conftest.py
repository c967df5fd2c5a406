"""SQLAlchemy's suite needs a run of its own, with its plugin: `make test-clients`."""

collect_ignore = ["suites"]
