"""SQLAlchemy's own tests of a dialect."""

from __future__ import annotations

from typing import Any

from sqlalchemy.testing import suite
from sqlalchemy.testing.suite import *  # noqa: F403  (pytest collects them from here)


class ComponentReflectionTest(suite.ComponentReflectionTest):  # type: ignore[misc]
    """Constraints are compared by what they say: DuckDB gives them names of its own."""

    def _check_list(self, result: Any, exp: Any, req_keys: Any = None, msg: Any = None) -> None:
        for key in {"constrained_columns", "sqltext"} & set(req_keys or ()):
            result, exp = self._unnamed(result, key), self._unnamed(exp, key)
        if req_keys == self._required_unique_cst_keys:
            result, exp = (self._unnamed(some, "column_names") for some in (result, exp))
        super()._check_list(result, exp, req_keys, msg)

    @staticmethod
    def _unnamed(constraints: Any, key: str) -> list[dict[str, Any]]:
        unnamed = [{**one, "name": None} for one in constraints]
        return sorted(unnamed, key=lambda one: str(one[key]))
