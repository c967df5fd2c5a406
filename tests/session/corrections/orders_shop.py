"""A shop with orders, its policy, and the error that a session gives for a statement."""

import pytest

import dp_sql
from dp_sql.errors import QueryError
from tests.conftest import free

TABLES = """
CREATE TABLE regions AS SELECT i AS region_id, 'r' || i AS region FROM range(1, 4) AS t(i);
CREATE TABLE customers (customer_id INTEGER PRIMARY KEY, region_id INTEGER, born DATE);
INSERT INTO customers SELECT i, 1 + i % 3, DATE '1950-01-01' + (i * 7)::INT FROM range(60) AS t(i);
CREATE TABLE orders (
    order_id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers (customer_id),
    day DATE, status VARCHAR, total DECIMAL(12, 2), note VARCHAR);
INSERT INTO orders
SELECT i, i % 60, DATE '2024-01-01' + (i % 40)::INT, ['paid', 'sent', 'back'][1 + i % 7 % 3], i % 50,
       'note' FROM range(600) AS t(i);
CREATE TABLE items (order_id INTEGER REFERENCES orders (order_id), quantity INTEGER);
INSERT INTO items SELECT i % 600, 1 + i % 3 FROM range(900) AS t(i);
CREATE TABLE employees (employee_id INTEGER PRIMARY KEY, dept VARCHAR, salary INTEGER);
INSERT INTO employees SELECT i, ['eng', 'hr'][1 + i % 2], 100 + i FROM range(50) AS t(i);
"""


POLICY = """
tables.customers = { privacy_unit = "customer_id", unique_per_person = ["region_id"] }
tables.orders.privacy_unit = "customer_id"
tables.items.privacy_unit = { link = "order_id", to = "orders.order_id" }
tables.employees = { privacy_unit = "employee_id", unique_per_person = ["dept"] }
public.tables = ["regions"]
domains."orders.status" = ["paid", "sent", "back"]
domains."employees.dept" = ["eng", "hr"]
"""


SAME, OTHER = "Write instead:\n", "A different question that works:\n"


def told(session: dp_sql.Session, statement: str) -> QueryError:
    with free(session), pytest.raises(QueryError) as caught:
        session.sql(statement)
    return caught.value


UNIT = ", privacy_unit := customer_id"
