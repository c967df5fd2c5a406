"""The gateway between Quack's server and the analysts' sessions, without a network."""

import itertools
import threading
from typing import Any

import duckdb
import pytest

import dp_sql
import dp_sql.server.gateway
from dp_sql.engines.duckdb import quack_server as duckdb_quack
from dp_sql.engines.duckdb.quack_server import QuackServer
from dp_sql.engines.duckdb.results import Result
from dp_sql.errors import BudgetExceeded, DpSqlError, NotPrivate, NotSupported, QueryError
from dp_sql.server.access_tokens import remove_token
from dp_sql.server.gateway import Gateway
from dp_sql.sql.statement_limits import MAX_BYTES
from tests.conftest import SURE
from tests.server.serving import COUNT, POLICY, Served, stored_by, until


def test_a_gateway_answers_no_one_who_was_not_admitted(gateway: tuple[Gateway, Served]) -> None:
    it, served = gateway
    assert not it.admit("one", "wrong")
    with pytest.raises(NotSupported, match="not valid here"):
        it.answer("one", "SELECT 1")
    assert it.admit("one", served.token("reporting"))
    assert it.answer("one", "SELECT 1") == "FROM answer_0"
    with pytest.raises(NotSupported, match="not valid here"):
        it.answer("two", "SELECT 1")


def test_errors_in_the_owners_files_are_reported_to_the_owner(
    gateway: tuple[Gateway, Served], capsys: pytest.CaptureFixture[str]
) -> None:
    it, served = gateway
    secrets = [served.token(name) for name in ("reporting", "poor")]
    for connection, secret in zip(("one", "two"), secrets, strict=True):
        assert it.admit(connection, secret)
    it.answer("one", "SELECT 1")
    served.tokens.chmod(0o644)
    with pytest.raises(NotSupported, match="Its owner can read why") as told:
        it.answer("one", "SELECT 1")
    assert str(served.folder) not in str(told.value)
    assert "chmod 600" in capsys.readouterr().err
    assert not it.admit("three", secrets[0])
    assert "chmod 600" in capsys.readouterr().err
    served.tokens.chmod(0o600)
    served.policy.write_text("nonsense", "utf-8")
    with pytest.raises(NotSupported, match="Its owner can read why"):
        it.answer("two", "SELECT 1")
    assert "PolicyError" in capsys.readouterr().err


def test_the_owner_reads_who_has_a_token_and_no_cap(
    gateway: tuple[Gateway, Served], capsys: pytest.CaptureFixture[str]
) -> None:
    it, served = gateway
    it.check()
    assert "may spend all that is left: reporting\n" in capsys.readouterr().err
    cap = "[budget.analysts.reporting]\nepsilon = 1\n"
    for text in (served.policy.read_text("utf-8") + cap, POLICY.partition("[budget.analysts")[0]):
        served.policy.write_text(text.format(limits=""), "utf-8")
        other = Gateway(str(served.database), str(served.policy), served.tokens, it._server)
        other.check()
        other.close()
        assert capsys.readouterr().err == ""


def test_nothing_new_is_answered_once_the_policy_has_changed(
    gateway: tuple[Gateway, Served], capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that is being written may lack its budget, which comes last."""
    it, served = gateway
    assert it.admit("one", served.token("reporting"))
    answered, text = it.answer("one", COUNT), served.policy.read_text("utf-8")
    for changed in (text.partition("[budget]")[0], text + "\n", "nonsense", ""):
        assert changed != text
        served.policy.write_text(changed, "utf-8")
        assert it.answer("one", COUNT) == answered
        with pytest.raises(NotSupported, match="Its owner can read why"):
            it.answer("one", COUNT + " ")
        assert "has changed since the server started" in capsys.readouterr().err
    served.policy.write_text(text, "utf-8")
    assert it.answer("one", COUNT + " ") != answered
    assert served.spent("reporting") == 20_000


@pytest.mark.parametrize(
    "text", ["BEGIN" + " " * 150_000 + "x", "BEGIN" + " " * 150_000, "BEGIN x"]
)
def test_other_texts_than_those_of_drivers_are_refused_at_once(
    gateway: tuple[Gateway, Served], text: str
) -> None:
    it, served = gateway
    assert it.admit("one", served.token("reporting"))
    with pytest.raises(DpSqlError):
        it.answer("one", text)


def test_a_missing_database_is_reported_to_the_owner(
    gateway: tuple[Gateway, Served], capsys: pytest.CaptureFixture[str]
) -> None:
    it, served = gateway
    assert it.admit("one", served.token("reporting"))
    served.database.rename(served.folder / "elsewhere")
    with pytest.raises(NotSupported, match="Its owner can read why"):
        it.answer("one", "SELECT 1")
    assert "shop.duckdb" in capsys.readouterr().err


def test_a_closed_gateway_answers_no_one(gateway: tuple[Gateway, Served]) -> None:
    it, served = gateway
    assert it.admit("one", served.token("reporting"))
    it.interrupt()
    assert not it.admit("two", served.token("reporting"))
    with pytest.raises(NotSupported, match="The server is stopping"):
        it.answer("one", "SELECT 1")


def test_a_policy_that_is_written_while_a_session_opens_is_not_read(
    gateway: tuple[Gateway, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    it, served = gateway
    whole = served.policy.read_text("utf-8")
    monkeypatch.setattr(it, "_policy_text", lambda: it._text_at_start)  # as it was a moment ago
    served.policy.write_text(whole.partition("[budget]")[0], "utf-8")
    assert it.admit("one", served.token("reporting"))
    it.answer("one", COUNT)
    served.policy.write_text(whole, "utf-8")
    assert served.spent("reporting") > 0


def test_a_policy_is_the_text_that_is_compared(
    gateway: tuple[Gateway, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    it, served = gateway
    whole, terms = served.policy.read_bytes(), it._parsed
    monkeypatch.setattr(Gateway, "_policy_text", lambda _: whole)  # as it was a moment ago
    served.policy.write_bytes(whole.partition(b"[budget]")[0])
    other = Gateway(str(served.database), str(served.policy), served.tokens, it._server)
    assert other._parsed == terms and terms.budget is not None
    other.close()


def test_a_gateway_repeats_what_has_cost_and_nothing_else(gateway: tuple[Gateway, Served]) -> None:
    it, served = gateway
    for connection in ("one", "two"):
        assert it.admit(connection, served.token("reporting"))
    first = it.answer("one", COUNT)
    assert it.answer("one", COUNT) == first
    assert it.answer("two", COUNT) == first
    assert it.answer("one", "FROM dp_budget()") != it.answer("one", "FROM dp_budget()")
    assert it.answer("one", "SELECT name FROM dp_functions() WHERE call LIKE 'left(%'")
    assert it.admit("other", served.token("poor"))
    with pytest.raises(BudgetExceeded):
        it.answer("other", COUNT)
    assert served.spent("reporting") == 10_000


@pytest.mark.parametrize(
    ("statement", "is_done"),
    [("BEGIN", True), (" start  transaction;\n", True), ("COMMIT WORK", True), ("rollback", True),
     ("BEGIN; SELECT 1", False), ("ROLLBACK AND CHAIN", False)],
)  # fmt: skip
def test_transactions_begin_and_end_without_effect(
    statement: str, is_done: bool, gateway: tuple[Gateway, Served]
) -> None:
    """Drivers send these by themselves."""
    it, served = gateway
    assert it.admit("one", served.token("reporting"))
    if is_done:
        assert duckdb.sql(it.answer("one", statement)).fetchall() == []
    else:
        with pytest.raises(QueryError):
            it.answer("one", statement)


def test_the_answers_read_least_recently_go_first(
    gateway: tuple[Gateway, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    it, served = gateway
    monkeypatch.setattr(dp_sql.server.gateway, "_MAX_ANSWERS", 2)
    assert it.admit("one", served.token("reporting"))
    first, second = it.answer("one", COUNT), it.answer("one", COUNT + " ")
    assert it.answer("one", COUNT) == first
    it.answer("one", COUNT + "  ")
    assert it.answer("one", COUNT) == first
    assert it.answer("one", COUNT + " ") != second
    assert served.spent("reporting") == 40_000


MUCH_TEXT = "SELECT repeat('{:02}', 5000000) AS x"
MANY_COLUMNS = f"SELECT {{}}, {', '.join(['TRUE'] * 30)} FROM range(5000)"  # 320 times as large


@pytest.mark.parametrize("costs", ["", f", (SELECT {COUNT.removeprefix('SELECT ')})"])
@pytest.mark.parametrize("large", [MUCH_TEXT, MANY_COLUMNS])
def test_an_analyst_with_large_answers_leaves_room_for_those_of_others(
    large: str, costs: str, gateway: tuple[Gateway, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    it, served = gateway
    monkeypatch.setattr(dp_sql.server.gateway, "_MAX_HELD", 25 * 10**6)
    shelf = stored_by(it, 2 * 10**9, monkeypatch)
    shelf._run("SET memory_limit = '100MB'")
    for n in range(12):
        assert it.admit(f"{n}", served.token("reporting"))
        first, separator, last = large.format(n).partition(" FROM ")
        sql = it.answer(f"{n}", f"{first}{costs}{separator}{last}")
        assert len(shelf._run(sql)) in {1, 5000}
    held = it._analyst("reporting").held
    assert {name for (name,) in shelf._run("SELECT table_name FROM duckdb_tables()")} == {*held}
    other = "SELECT DP_COUNT_DISTINCT(title, epsilon := 1) AS n FROM ratings"
    assert it.admit("other", served.token("poor"))
    assert len(shelf._run(it.answer("other", other))) == 1
    shelf.close()


def test_a_statement_sent_twice_at_once_on_one_connection_is_spent_once(
    gateway: tuple[Gateway, Served],
) -> None:
    it, served = gateway
    assert it.admit("one", served.token("reporting"))
    it._server.live = frozenset({"one"})  # type: ignore[attr-defined]
    analyst = it._analyst("reporting")
    told: list[str] = []
    with analyst.lock:
        asking = [
            threading.Thread(target=lambda: told.append(it.answer("one", COUNT))) for _ in range(3)
        ]
        for thread in asking:
            thread.start()
        until(lambda: analyst.asking == 3)
    for thread in asking:
        thread.join()
    assert len(told) == 3 and len(set(told)) == 1
    assert served.spent("reporting") == 10_000


def test_a_statement_that_is_answered_just_before_its_turn_is_spent_once(
    gateway: tuple[Gateway, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    it, served = gateway
    for name in ("one", "two"):
        assert it.admit(name, served.token("reporting"))
    held, told = it._held, list[str]()

    def held_late(*asked: Any) -> str | None:
        known = held(*asked)
        if not told:
            told.append("")
            told.append(it.answer("two", COUNT))  # it comes first, and is done before the turn
        return known

    monkeypatch.setattr(it, "_held", held_late)
    assert it.answer("one", COUNT) == told[1]
    assert served.spent("reporting") == 10_000


def test_five_questions_of_an_analyst_are_taken_and_the_sixth_is_refused_at_once(
    gateway: tuple[Gateway, Served],
) -> None:
    it, served = gateway
    names = [str(n) for n in range(6)]
    for name in names:
        assert it.admit(name, served.token("reporting"))
    assert it.admit("other", served.token("poor"))
    it._server.live = frozenset(names)  # type: ignore[attr-defined]
    analyst = it._analyst("reporting")
    told: list[str] = []

    def ask(name: str) -> None:
        told.append(it.answer(name, "SELECT 1"))

    with analyst.lock:
        asking = [threading.Thread(target=ask, args=(name,)) for name in names[:5]]
        for thread in asking:
            thread.start()
        until(lambda: analyst.asking == 5)
        with pytest.raises(NotSupported, match=r"Busy: 4 of your queries .* cost nothing"):
            it.answer(names[5], "SELECT 1")
        assert it.answer("other", "SELECT 1").startswith("FROM answer")
    for thread in asking:
        thread.join()
    assert len(told) == 5
    assert it.answer(names[5], "SELECT 1").startswith("FROM answer")


def test_a_statement_that_is_too_long_is_refused_unread(
    gateway: tuple[Gateway, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    it, served = gateway
    assert it.admit("one", served.token("reporting"))
    read: list[str] = []
    monkeypatch.setattr(
        dp_sql.server.gateway, "attached_catalog", lambda _, text: read.append(text)
    )
    with pytest.raises(NotSupported, match="200,000 bytes"):
        it.answer("one", "SELECT " + "x," * MAX_BYTES)
    assert not read


def test_waiting_questions_leave_room_for_other_analysts(
    gateway: tuple[Gateway, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    it, served = gateway
    monkeypatch.setattr(dp_sql.server.gateway, "_WAITING_AT_ONCE", 3)
    monkeypatch.setattr(dp_sql.server.gateway, "_ASKED_AT_ONCE", 4)
    for name, who in (("a", "reporting"), ("b", "poor")):
        assert it.admit(name, served.token(who))
    reporting, other = it._analyst("reporting"), it._analyst("other")
    reporting.asking = 3
    with pytest.raises(
        NotSupported, match=r"Busy: 3 queries of all analysts are open.* cost nothing"
    ):
        it.answer("a", "SELECT 1")
    assert it.answer("b", "SELECT 1").startswith("FROM answer")  # it asks nothing else
    other.asking = 1
    with pytest.raises(NotSupported, match="Busy: 4 queries of all analysts"):
        it.answer("b", "SELECT 1")
    reporting.asking = other.asking = 0
    assert it.answer("a", "SELECT 1").startswith("FROM answer")


def test_all_analysts_together_cannot_take_every_thread_of_quack() -> None:
    assert dp_sql.server.gateway._WAITING_AT_ONCE < dp_sql.server.gateway._ASKED_AT_ONCE < 120


@pytest.mark.one_in(2)
@pytest.mark.parametrize("what", ["left", "removed"])
def test_a_question_that_waited_is_not_asked_for_a_client_that_is_gone(
    gateway: tuple[Gateway, Served], what: str
) -> None:
    it, served = gateway
    assert it.admit("one", served.token("reporting"))
    it._server.live = frozenset({"one"})  # type: ignore[attr-defined]
    analyst = it._analyst("reporting")
    told: list[str] = []

    def ask() -> None:
        try:
            told.append(it.answer("one", COUNT))
        except NotSupported as error:
            told.append(str(error))

    with analyst.lock:
        asking = threading.Thread(target=ask)
        asking.start()
        until(lambda: analyst.asking == 1)
        if what == "left":
            it._server.live = frozenset()  # type: ignore[attr-defined]
        else:
            remove_token(served.tokens, "reporting")
    asking.join()
    assert "closed before its turn" in told[0] or "not valid here" in told[0]
    assert served.spent("reporting") == 0


def test_a_release_that_cannot_be_held_is_spent_once_and_names_no_table(
    gateway: tuple[Gateway, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    it, served = gateway
    assert it.admit("one", served.token("reporting"))
    with duckdb.connect() as con:
        plain_server = QuackServer.__new__(QuackServer)
        plain_server._connection, plain_server._numbers = con, itertools.count(1)
        odd = Result((("x", "NO SUCH TYPE"),), con.sql("SELECT 1 AS c0").to_arrow_table())
        monkeypatch.setattr(it._server, "hold", lambda _: plain_server.hold(odd))
        told = {it.answer("one", COUNT) for _ in range(3)}
    assert told == {duckdb_quack.refusal(RuntimeError())}
    assert served.spent("reporting") == 10_000


def test_a_question_that_fails_after_its_release_is_spent_once(
    gateway: tuple[Gateway, Served],
) -> None:
    it, served = gateway
    assert it.admit("one", served.token("reporting"))
    inside = f"(SELECT DP_COUNT_DISTINCT(title, {SURE}) AS n FROM ratings)"
    told = {it.answer("one", f"SELECT ('x' || n)::INTEGER AS i FROM {inside}") for _ in range(3)}
    assert len(told) == 1 and "Conversion Error" in told.pop()
    assert served.spent("reporting") == 10_000


def test_a_refusal_is_not_held(gateway: tuple[Gateway, Served]) -> None:
    it, served = gateway
    assert it.admit("one", served.token("poor"))
    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            it.answer("one", COUNT)
    assert not it._analyst("poor").answers


def test_what_a_refusal_proposes_can_be_pasted_into_the_clients_shell(
    gateway: tuple[Gateway, Served],
) -> None:
    it, served = gateway
    assert it.admit("one", served.token("reporting"))
    with pytest.raises(NotPrivate) as refused:
        it.answer("one", " SELECT count(*) FROM ratings WHERE title <> '$$' ")
    with duckdb.connect() as con, pytest.raises(duckdb.Error) as told:
        con.execute(duckdb_quack.refusal(refused.value)).fetchall()
    proposed = "FROM dp($q$ SELECT DP_COUNT(*, epsilon := 1) FROM ratings WHERE title <> '$$' $q$)"
    assert str(told.value).endswith(f"Write instead:\n{proposed}")


def test_a_gateway_forgets_connections_that_are_gone(
    gateway: tuple[Gateway, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    it, served = gateway
    assert it.admit("one", served.token("reporting"))
    assert it.admit("two", served.token("reporting"))
    it.answer("one", "SELECT 1")
    assert it.admit("three", served.token("reporting"))
    with pytest.raises(NotSupported, match="not valid here"):
        it.answer("one", "SELECT 1")
    it.answer("two", "SELECT 1")  # just admitted, and not listed as open yet
    monkeypatch.setattr(dp_sql.server.gateway, "_GRACE_SECONDS", -1.0)
    assert it.admit("four", served.token("reporting"))
    with pytest.raises(NotSupported, match="not valid here"):
        it.answer("three", "SELECT 1")


def test_a_connection_that_first_asks_while_the_open_ones_are_listed_is_not_forgotten(
    gateway: tuple[Gateway, Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    it, served = gateway
    assert it.admit("one", served.token("reporting"))

    def listed() -> frozenset[str]:
        it.answer("one", "SELECT 1")  # Quack opened it after it had made the list
        return frozenset()

    monkeypatch.setattr(it._server, "connections", listed)
    assert it.admit("two", served.token("reporting"))
    assert it.answer("one", "SELECT 2").startswith("FROM answer")


def test_each_token_has_its_share_of_the_connections_that_quack_can_list(
    gateway: tuple[Gateway, Served],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it, served = gateway
    secret, other = served.token("reporting"), served.token("poor")
    monkeypatch.setattr(it, "_forget_closed", lambda: None)
    most = 1500 // len(served.secrets)
    assert [it.admit(f"one {i}", secret) for i in range(most + 2)] == [True] * most + [False] * 2
    assert f"reporting has {most} open connections" in capsys.readouterr().err
    assert it.admit("two", other)
    it.answer("one 0", "SELECT 1")  # the connections that are open go on
