"""What every file of this floor has to keep to, read from its source."""

import ast
import inspect
from fractions import Fraction
from pathlib import Path

import pytest

from dp_sql import udfs
from dp_sql.udfs import REGISTRY, PrivacyLoss, discrete_laplace
from dp_sql.udfs.mechanism import in_words

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "udfs").rglob("*.py"))
SOURCES = {
    path.relative_to(ROOT / "udfs").with_suffix("").as_posix(): ast.parse(path.read_text())
    for path in FILES
}
NODES = [(name, node) for name, tree in SOURCES.items() for node in ast.walk(tree)]

MAY_IMPORT = {
    "ast", "bisect", "collections", "dataclasses", "fractions", "functools", "itertools", "math",
    "inspect", "numpy", "operator", "types", "typing", "__future__",
}  # fmt: skip
MAY_IMPORT_ALSO = {
    "__init__": {"importlib"},  # of mechanisms, by the names of REGISTRY
    "randomness": {"secrets"},
    "count_distinct/kernels": {"ctypes", "pathlib"},
    "count_distinct/kernels_build": {
        "importlib",
        "os",
        "pathlib",
        "platform",
        "re",
        "shlex",
        "subprocess",
        "sys",
        "sysconfig",
        "tempfile",
    },
    "contributions/summaries": {"ctypes"},
    "count_distinct/flow": {"ctypes"},
    "count_distinct/greedy": {"ctypes"},
    "count_distinct/dense_numbers": {"ctypes"},
    "count_distinct/stored_pairs": {"concurrent", "ctypes", "pathlib", "tempfile"},
}
MATH_ON_INTEGERS = {"comb", "gcd", "isqrt", "lcm", "perm", "prod"}
FLOATING = ("float", "double", "single", "half", "complex", "longdouble")
NOT_INTEGER = {
    "arccos", "cbrt", "divide", "e", "exp", "exp2", "expm1", "frexp", "inf", "linspace", "log",
    "log10", "log1p", "log2", "mean", "nan", "pi", "pow", "random", "rand", "sqrt", "std",
    "true_divide", "urandom", "var",
}  # fmt: skip
SWITCHES = ("seed", "noise", "rng", "random", "state", "test", "debug", "determin", "mock")


def offences(forbidden):
    return [f"{name}.py:{node.lineno}" for name, node in NODES if forbidden(name, node)]


def imported(node):
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def test_no_number_with_a_point_is_written():
    def is_float(_, node):
        return isinstance(node, ast.Constant) and isinstance(node.value, float | complex)

    assert offences(is_float) == []


def test_nothing_is_truly_divided():
    def divides(_, node):
        return isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div)

    assert offences(divides) == []


def test_no_floating_type_or_function_is_used():
    def floats(_, node):
        if isinstance(node, ast.Name):
            return node.id.startswith(FLOATING)
        return isinstance(node, ast.Attribute) and (
            node.attr.startswith(FLOATING)
            or (node.attr in NOT_INTEGER and ast.unparse(node.value) in ("np", "numpy", "os"))
        )

    assert offences(floats) == []


def test_mathematics_is_on_integers_only():
    def real(_, node):
        from_math = isinstance(node, ast.ImportFrom) and node.module == "math"
        return from_math or (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "math"
            and node.attr not in MATH_ON_INTEGERS
        )

    assert offences(real) == []


def test_only_listed_modules_are_imported_and_secrets_only_by_randomness():
    def foreign(name, node):
        others = {m for m in imported(node) if not f"{m}.".startswith("dp_sql.udfs.")}
        roots = {module.split(".")[0] for module in others}
        return not roots <= MAY_IMPORT | MAY_IMPORT_ALSO.get(name, set())

    assert offences(foreign) == []


def test_nothing_is_imported_by_name_or_evaluated():
    def hidden(_, node):
        return isinstance(node, ast.Name) and node.id in ("__import__", "eval", "exec", "compile")

    assert offences(hidden) == []


def test_no_function_has_a_seed_or_a_noise_switch():
    def switch(_, node):
        return isinstance(node, ast.arg) and any(word in node.arg.lower() for word in SWITCHES)

    assert offences(switch) == []


def test_the_registry_cannot_be_changed():
    with pytest.raises(TypeError):
        REGISTRY["topk"]["other"] = REGISTRY["topk"]["joint"]


def test_the_floor_shows_three_names():
    assert udfs.__all__ == ["REGISTRY", "Mechanism", "PrivacyLoss"]


def test_losses_add():
    one, other = (
        PrivacyLoss(Fraction(1, 3)),
        PrivacyLoss(Fraction(1, 6), Fraction(1, 100), Fraction(1, 9)),
    )
    assert one + other == PrivacyLoss(
        Fraction(1, 2), Fraction(1, 100), Fraction(1, 18) + Fraction(1, 9)
    )
    assert (one + PrivacyLoss(Fraction(1), Fraction(1, 100))).rho is None


def test_approximate_rhos_add_with_their_deltas():
    third, tenth = Fraction(1, 3), Fraction(1, 10)
    one = PrivacyLoss(Fraction(1), tenth, approximate=(third, tenth))
    assert one.times(3).approximate == (one + one + one).approximate == (1, 3 * tenth)
    pure = PrivacyLoss(Fraction(2))
    assert (one + pure).approximate == (pure + one).approximate == (third + 2, tenth)
    unknown = PrivacyLoss(Fraction(1), tenth)
    assert unknown.approximate == (Fraction(1, 2), tenth), "as any (epsilon, delta)-DP"
    assert (one + unknown).approximate == (third + Fraction(1, 2), 2 * tenth)
    assert (pure + pure).approximate is pure.times(2).approximate is None


@pytest.mark.parametrize(("rho", "slack"), [(0, 1), (1, 0), (1, 2), (-1, 1)])
def test_an_approximate_rho_out_of_range_is_refused(rho, slack):
    tenth = Fraction(1, 10)
    with pytest.raises(ValueError, match="approximate"):
        PrivacyLoss(Fraction(1), tenth, approximate=(rho * tenth, slack * tenth))
    with pytest.raises(ValueError, match="approximate"):
        PrivacyLoss(Fraction(1), tenth, tenth, approximate=(tenth, tenth))


def test_pure_privacy_implies_concentrated_privacy():
    assert PrivacyLoss(Fraction(1, 3)).rho == Fraction(1, 18)
    assert PrivacyLoss(Fraction(1, 3), rho=Fraction(1, 72)).rho == Fraction(1, 72)


@pytest.mark.parametrize("bad", [1, 0.5, "1", True])
def test_a_rho_of_another_type_is_refused(bad):
    with pytest.raises(TypeError, match="rho"):
        PrivacyLoss(Fraction(1), rho=bad)


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(-1)])
def test_a_rho_out_of_range_is_refused(bad):
    with pytest.raises(ValueError, match="rho"):
        PrivacyLoss(Fraction(1), rho=bad)


@pytest.mark.parametrize("bad", [1, 1.0, float("nan"), True, "1", None])
def test_a_loss_of_another_type_is_refused(bad):
    with pytest.raises(TypeError, match="Fractions"):
        PrivacyLoss(bad)


@pytest.mark.parametrize("bad", [0, 0.0, None, "0"])
def test_a_delta_of_another_type_is_refused(bad):
    with pytest.raises(TypeError, match="Fractions"):
        PrivacyLoss(Fraction(1), bad)


@pytest.mark.parametrize("bad", [Fraction(0), Fraction(-1)])
def test_an_epsilon_out_of_range_is_refused(bad):
    with pytest.raises(ValueError, match="epsilon"):
        PrivacyLoss(bad)


@pytest.mark.parametrize("bad", [Fraction(1), Fraction(-1, 10)])
def test_a_delta_out_of_range_is_refused(bad):
    with pytest.raises(ValueError, match="delta"):
        PrivacyLoss(Fraction(1), bad)


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (Fraction(19, 20), "0.95"),
        (Fraction(3), "3"),
        (Fraction(1, 3), "1/3"),
        (Fraction(-1, 8), "-0.125"),
        (Fraction(1, 10**9), "0.000000001"),
        (Fraction(12345, 100), "123.45"),
    ],
)
def test_fractions_are_written_as_people_write_them(x, words):
    assert in_words(x) == words


def test_a_quantile_has_no_default():
    arguments = inspect.signature(discrete_laplace.laplace_quantile).parameters.values()
    assert all(argument.default is inspect.Parameter.empty for argument in arguments)


def test_no_file_is_longer_than_400_lines_and_no_function_than_60():
    product = [*FILES, *(path for path in (ROOT / "dp_sql").rglob("*.py"))]
    long_files = [path.name for path in product if len(path.read_text().splitlines()) > 400]
    assert long_files == []
    nodes = (node for path in product for node in ast.walk(ast.parse(path.read_text())))
    functions = [
        node.name
        for node in nodes
        if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= 60
    ]
    assert functions == []
