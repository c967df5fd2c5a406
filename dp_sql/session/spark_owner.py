"""The owner's session on Spark: SELECTs with DP calls over Spark's tables."""

import contextlib
from collections.abc import Sequence
from types import FrameType

import duckdb

from dp_sql.budget.ledger import Ledger
from dp_sql.engines.duckdb.connection import Engine
from dp_sql.engines.duckdb.public_connection import PublicConnection
from dp_sql.engines.duckdb.tables import use_schema
from dp_sql.engines.spark.owner_engine import SparkEngine, names_in
from dp_sql.engines.spark.spark_catalog import Spark
from dp_sql.errors import NotSupported, QueryError, SourceError
from dp_sql.privacy.plans.plan import Plan, Released
from dp_sql.session.corrections.corrector import refuse_unknown
from dp_sql.session.explain import Explanation
from dp_sql.session.owner import OwnerSession
from dp_sql.session.owner_plans import plans_of_all
from dp_sql.sql.statement import Statement, parse
from dp_sql.sql.statement_limits import check_depth
from dp_sql.sql.tokens import folded


class SparkOwnerSession(OwnerSession):
    """A session without a policy on Spark: `with dp_sql.connect(spark) as session: …`.

    People's rows stay in Spark. Answers, and the public tables that a statement reads around its
    DP calls, are in DuckDB on the driver.
    """

    def __init__(self, spark: Spark, ledger: Ledger | None = None) -> None:
        with contextlib.ExitStack() as closing:
            if ledger is not None:
                closing.callback(ledger.close)
            self._spark = SparkEngine(spark)
            closing.callback(self._spark.close)
            self._public = PublicConnection()
            closing.callback(self._public.close)
            self._begin(self._public.connection, self._spark.tickets, self._spark.number, ledger)
            self._closing = closing.pop_all()

    def interrupt(self) -> None:
        """Stop what is running, in Spark and on the driver."""
        self._spark.interrupt()
        super().interrupt()

    # --- how statements differ from those on DuckDB ---

    def _engine(self, frame: FrameType) -> Engine:
        return self._public

    def _parse(self, text: str, params: object) -> list[Statement]:
        if not isinstance(text, str):
            raise NotSupported("A query must be a string.")
        parsed = parse(text)
        for number, statement in enumerate(parsed):
            check_depth(statement)
            if statement.keyword == "EXPLAIN" and len(statement.tokens) > 1:
                parsed[number] = statement.without_explain()
            is_asked = parsed[number].selects or parsed[number].system_tables
            if not (is_asked and parsed[number].may_be_query):
                tables = "dp_budget(), dp_functions(), dp_ledger(), dp_releases() and dp_release()"
                raise statement.tokens[0].error(
                    NotSupported,
                    f"On Spark a session answers SELECTs with DP calls, and {tables}.",
                    "Everything else is Spark's: spark.sql(…). To keep an answer there: "
                    "spark.createDataFrame(session.sql(…).to_arrow_table()).",
                )
        return parsed

    def _sql_without_release(
        self, statement: Statement, engine: Engine, params: object
    ) -> tuple[str, object] | None:
        return None

    def _plan(self, statement: Statement, engine: Engine) -> list[Plan]:
        use_schema(self._connection, self._spark.begin())
        refuse_unknown(statement, engine)
        plans = plans_of_all(statement, self._spark)
        self._spark.releases.check(plans)
        self._private = {one.table for plan in plans for one in plan.people}
        return plans

    def _explained(self, queries: Sequence[Sequence[Plan]], engine: Engine) -> list[Explanation]:
        return super()._explained(queries, self._spark)

    def _bind(self, statement: Statement, empty: str, params: object, engine: Engine) -> None:
        unread = self._load(statement, empty, params, engine)
        try:
            engine.bind(empty, params)
        except duckdb.CatalogException:
            if unread:
                raise unread[0] from None
            raise

    def _load(
        self, statement: Statement, empty: str, params: object, engine: Engine
    ) -> list[QueryError]:
        """Read the tables that a statement names around its DP calls; returns why some are not."""
        names = [name for name in names_in(empty) if folded(name[-1]) not in statement.ctes]
        loaded = {folded(parts[-1]) for parts in self._public.loaded}
        if not any(folded(name[-1]) in loaded for name in names):
            with contextlib.suppress(duckdb.Error):
                engine.bind(empty, params)  # it may name none
                return []
        unread: list[QueryError] = []
        for name in names:
            try:
                self._load_one(name)
            except SourceError as error:
                unread.append(error)
        return unread

    def _load_one(self, name: Sequence[str]) -> None:
        found = self._spark.table(name)
        if found is None:
            return
        if found.parts in self._private:
            raise SourceError(
                f"{name[-1]} holds people's rows, which stay in Spark.",
                hint="Around a DP call a statement reads other tables. Ask Spark for these rows: "
                "spark.sql(…)",
            )
        self._public.load(
            found.parts, found.columns, self._spark.rows(found), is_bare=len(name) == 1
        )

    def _release(
        self, statement: Statement, plans: Sequence[Plan], engine: Engine
    ) -> list[Released]:
        return super()._release(statement, plans, self._spark)
