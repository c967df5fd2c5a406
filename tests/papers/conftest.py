"""The papers' programs need the packages of the extra `papers`; `make check` has them."""

from importlib.util import find_spec

if not all(find_spec(name) for name in ("matplotlib", "scipy", "tqdm")):
    collect_ignore_glob = ["test_*.py"]
