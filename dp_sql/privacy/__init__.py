"""Which sources are person-level, and the plans and SQL of private queries; runs nothing."""
