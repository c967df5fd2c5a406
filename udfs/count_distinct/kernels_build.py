"""The build backend: setuptools, after compiling the C files into a library without Python's API.

So one wheel serves every Python 3. The compiler is the one that CC names, or cc. Where it does not
work, the build asks for ziglang, a package with a compiler inside. pyproject.toml names this file.
"""

import os
import platform
import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

SOURCES = tuple(
    Path(__file__).with_name(f"{name}.c")
    for name in ("from_items", "from_people", "lists", "strings", "partial", "rows")
)
LIBRARY = Path(__file__).with_name("libkernels.so")
TEMPLATE = ".ci/MANIFEST.in"
LINK = Path("dp_sql", "udfs")
FLAGS = ["-O3", "-fPIC", "-shared"]
# For any machine of the platform, as cc does, and without the symbols for a debugger.
ZIG = [sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline", "-s"]
Settings = dict[str, Any] | None


def __getattr__(name: str) -> Any:
    """The hooks that stay as they are; setuptools is there only while something is built."""
    if name.startswith("prepare_metadata_for_build_"):
        return getattr(_setuptools(), name)
    raise AttributeError(name)


def _setuptools() -> Any:
    return import_module("setuptools.build_meta")


def compiler() -> list[str] | None:
    """Find the C compiler that this machine has, if it works."""
    found = shlex.split(os.environ.get("CC", "cc"))
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "empty.c")
        source.write_text("#include <stdint.h>\n")
        try:
            command = [*found, *FLAGS, str(source), "-o", str(Path(folder, "empty.so"))]
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            return None
    return found


def compile_kernels(
    sources: Sequence[Path] = SOURCES, library: Path = LIBRARY, *flags: str
) -> None:
    """Write the library; a process that has loaded an older one keeps it."""
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        made = Path(folder, library.name)
        command = [*(compiler() or ZIG), *FLAGS, *flags]
        subprocess.run([*command, *map(str, sources), "-o", str(made)], check=True)
        made.replace(library)


def prepare() -> None:
    """Compile, and make the link that a source archive does not hold."""
    if not LINK.exists():
        LINK.symlink_to(Path("..", "udfs"))
    compile_kernels()


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """What setuptools needs, and a compiler if the machine has none."""
    needed: list[str] = _setuptools().get_requires_for_build_wheel(config_settings)
    return needed if compiler() else [*needed, "ziglang"]


get_requires_for_build_editable = get_requires_for_build_wheel


def target() -> str:
    """Name the platform that the compiler writes for; macOS on ARM begins with version 11."""
    name = sysconfig.get_platform().replace("universal2", platform.machine())
    return re.sub(r"macosx-10\.\d+-arm64", "macosx-11.0-arm64", name)


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build a wheel py3-none-<platform>."""
    prepare()
    settings = {**(config_settings or {}), "--build-option": [f"--plat-name={target()}"]}
    return str(_setuptools().build_wheel(wheel_directory, settings, metadata_directory))


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Compile in the checkout, and link to it."""
    prepare()
    return str(_setuptools().build_editable(wheel_directory, config_settings, metadata_directory))


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Pack what the template lists, in place of MANIFEST.in at the top level."""
    hooks = _setuptools()
    import_module("setuptools.command.egg_info").manifest_maker.template = TEMPLATE
    return str(hooks.build_sdist(sdist_directory, config_settings))
