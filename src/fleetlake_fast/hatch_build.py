"""Build hook: compiles the module. As a command, it compiles with other flags into a folder.

python src/fleetlake_fast/hatch_build.py FOLDER [FLAG...]
"""

import os
import shlex
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).parent
FILE = "fleetlake_fast.abi3.so"
FLAGS = ("-std=c++17", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra")
OPTIMISED = ("-O3", "-DNDEBUG")


def compile_module(folder: Path, flags: Sequence[str] = OPTIMISED) -> Path:
    """Compile the module into a folder; return its file.

    Raises: SystemExit saying what to install.
    """
    [*compiler] = shlex.split(os.environ.get("CXX", "c++"))
    headers = sysconfig.get_path("include")
    version = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]["version"]
    file = folder / FILE
    folder.mkdir(parents=True, exist_ok=True)
    sources = sorted(map(str, HERE.glob("*.cpp")))
    defined = [f'-DFLEETLAKE_FAST_VERSION="{version}"', "-DPy_LIMITED_API=0x030B0000"]
    words = [*compiler, *FLAGS, *flags, *defined, f"-I{headers}", *sources, "-o", str(file)]
    if not (Path(headers) / "Python.h").exists():
        raise SystemExit("Python's headers are missing: apt-get install python3-dev")
    try:
        subprocess.run(words, check=True)
    except FileNotFoundError:
        raise SystemExit("A C++ compiler is missing: apt-get install g++") from None
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"{compiler[0]} did not compile {HERE.name}") from error
    return file


class CompileHook(BuildHookInterface[Any]):
    """Add the compiled module to the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - the hook's signature
        """Compile, and name the wheel after the machine; any later Python can import it."""
        file = compile_module(Path(self.directory))
        machine = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{machine}"
        build_data["force_include"][str(file)] = FILE


if __name__ == "__main__":
    compile_module(Path(sys.argv[1]), sys.argv[2:])
