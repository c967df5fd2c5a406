import pytest

pytest.register_assert_rewrite("tests.engines.conformance")
