"""Builds the kernels: one C file without the Python API, so one wheel serves every Python 3.

Uses the C compiler named by CC, or cc. Where that does not work, it asks for ziglang, a package
with a compiler inside.
"""

import os
import platform
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

FLAGS = ["-O3", "-fPIC", "-shared"]


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


class BuildKernels(build_ext):
    """Compiles each source into a library that ctypes loads."""

    def build_extension(self, ext: Extension) -> None:
        library = self.get_ext_fullpath(ext.name)
        Path(library).parent.mkdir(parents=True, exist_ok=True)
        command = compiler() or [sys.executable, "-m", "ziglang", "cc"]
        subprocess.run([*command, *FLAGS, *ext.sources, "-o", library], check=True)

    def get_ext_filename(self, fullname: str) -> str:
        return fullname.replace(".", os.sep) + ".so"


class AnyPython(bdist_wheel):
    """Names the wheel py3-none-<platform>; the platform is that of the compiler."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2].replace("universal2", platform.machine())


setup(
    cmdclass={"build_ext": BuildKernels, "bdist_wheel": AnyPython},
    ext_modules=[
        Extension("dp_sql.udfs.count_distinct.libkernels", ["udfs/count_distinct/kernels.c"])
    ],
    setup_requires=[] if compiler() else ["ziglang"],
)
