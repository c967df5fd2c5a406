"""What DuckDB has and lacks, in the words of SQLAlchemy's suite, where its own default is wrong."""

from __future__ import annotations

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements

HAS = """
    aggregate_order_by array_type autocommit boolean_col_expressions check_constraint_reflection
    comment_reflection comment_reflection_full_unicode create_or_replace_view create_table_as
    create_temp_table_as ctes ctes_on_dml ctes_with_values date_historic datetime_historic
    datetime_literals delete_from except_ expression_server_defaults
    float_or_double_precision_behaves_generically has_temp_table implicit_default_schema
    index_ddl_if_exists indexes_with_expressions infinity_floats inline_check_constraint_reflection
    intersect mod_operator_as_percent_sign nullsordering order_by_label_with_expression
    percent_schema_names precision_numerics_enotation_small
    precision_numerics_many_significant_digits precision_numerics_retains_significant_digits
    reflect_indexes_with_expressions regexp_match regexp_replace schema_create_delete
    server_defaults supports_bitwise_and supports_bitwise_not supports_bitwise_or
    supports_bitwise_shift supports_distinct_on table_ddl_if_exists table_value_constructor
    temp_table_comment_reflection temp_table_names temporary_views timestamp_microseconds tuple_in
    unicode_ddl update_from uuid_data_type views window_functions
"""
LACKS = {
    "autoincrement_insert": "DuckDB does not number rows by itself",
    "autoincrement_without_sequence": "DuckDB does not number rows by itself",
    "foreign_key_constraint_name_reflection": "DuckDB gives constraints names of its own",
    "identity_columns": "DuckDB has no IDENTITY",
    "named_constraints": "DuckDB gives constraints names of its own",
}


class Requirements(SuiteRequirements):  # type: ignore[misc]
    """The requirements of DuckDB."""


for _name in HAS.split():
    setattr(Requirements, _name, property(lambda _: exclusions.open()))
for _name, _why in LACKS.items():
    setattr(Requirements, _name, property(lambda _, why=_why: exclusions.closed(why)))
