"""Superset's REST interface, as far as the trial beside this file uses it."""

from __future__ import annotations

import json
import secrets
import sys
from typing import Any

import requests


class Api:
    """Superset's REST interface, logged in."""

    def __init__(self, base: str, password: str) -> None:
        self.base = base
        self._session = requests.Session()
        account = {"username": "admin", "password": password, "provider": "db"}
        token = self.post("security/login", **account)["access_token"]
        self._session.headers["Authorization"] = f"Bearer {token}"
        self._session.headers["X-CSRFToken"] = self.get("security/csrf_token/")["result"]
        self._session.headers["Referer"] = base

    def get(self, path: str) -> Any:
        """Read what a path shows."""
        return self._read(self._session.get(f"{self.base}/api/v1/{path}", timeout=120))

    def post(self, path: str, **body: Any) -> Any:
        """Make something."""
        return self._read(self._session.post(f"{self.base}/api/v1/{path}", json=body, timeout=120))

    def put(self, path: str, **body: Any) -> Any:
        """Change something."""
        return self._read(self._session.put(f"{self.base}/api/v1/{path}", json=body, timeout=120))

    def connects(self, uri: str) -> bool:
        """Whether Superset's own test of a connection succeeds."""
        path = f"{self.base}/api/v1/database/test_connection/"
        body = {"database_name": "A trial", "sqlalchemy_uri": uri}
        return bool(self._session.post(path, json=body, timeout=120).ok)

    def ask(self, database: int, text: str) -> str:
        """SQL Lab's answer, rows or an error, as a string."""
        body: dict[str, Any] = {"database_id": database, "sql": text, "schema": "main"}
        body |= {"runAsync": False, "client_id": secrets.token_hex(5), "queryLimit": 100}
        path = f"{self.base}/api/v1/sqllab/execute/"
        answer = self._session.post(path, json=body, timeout=120).json()
        if "errors" in answer:
            return str(answer["errors"][0]["message"])
        return ", ".join(str(value) for row in answer["data"] for value in row.values())

    def chart(self, title: str, dataset: int, form: dict[str, Any]) -> int:
        """Make a chart; returns its number."""
        source = {"id": dataset, "type": "table"}
        form = {**form, "datasource": f"{dataset}__table"}
        query = {"row_limit": 100, **form.pop("query")}
        context = {
            "datasource": source,
            "form_data": form,
            "queries": [query],
            "result_format": "json",
            "result_type": "full",
        }
        made = self.post(
            "chart/",
            slice_name=title,
            viz_type=form["viz_type"],
            datasource_id=dataset,
            datasource_type="table",
            params=json.dumps(form),
            query_context=json.dumps(context),
        )
        return int(made["id"])

    def dashboard(self, title: str, charts: list[tuple[int, str]]) -> int:
        """Make a dashboard with its charts in rows of three; returns its number."""
        rows = {f"ROW-{i}": charts[i : i + 3] for i in range(0, len(charts), 3)}
        cells: dict[str, Any] = {
            "DASHBOARD_VERSION_KEY": "v2",
            "ROOT_ID": {"type": "ROOT", "id": "ROOT_ID", "children": ["GRID_ID"]},
            "GRID_ID": {
                "type": "GRID",
                "id": "GRID_ID",
                "children": [*rows],
                "parents": ["ROOT_ID"],
            },
        }
        for row, listed in rows.items():
            cells[row] = {
                "type": "ROW",
                "id": row,
                "children": [f"CHART-{number}" for number, _ in listed],
                "parents": ["ROOT_ID", "GRID_ID"],
                "meta": {"background": "BACKGROUND_TRANSPARENT"},
            }
            for number, name in listed:
                meta = {"chartId": number, "sliceName": name, "width": 4, "height": 40}
                parents = ["ROOT_ID", "GRID_ID", row]
                cell = {"type": "CHART", "children": [], "meta": meta, "parents": parents}
                cells[f"CHART-{number}"] = {**cell, "id": f"CHART-{number}"}
        made = self.post(
            "dashboard/", dashboard_title=title, position_json=json.dumps(cells), published=True
        )
        for number, _ in charts:
            self.put(f"chart/{number}", dashboards=[made["id"]])
        return int(made["id"])

    def _read(self, answer: requests.Response) -> Any:
        if not answer.ok:
            sys.exit(f"Superset answers {answer.status_code} to {answer.url}: {answer.text[:500]}")
        return answer.json()
