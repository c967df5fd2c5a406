"""The command line that all scripts of this folder share."""

import argparse
import fcntl
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from examples.papers.frame.sources import SourceError, Sources, find
from examples.papers.frame.trials import Trials

_OUT = Path("build") / "papers"


@dataclass(frozen=True)
class Setting:
    """What a script works with: data, where its results go, and whether it is to hurry."""

    sources: Sources
    out: Path
    quick: bool

    def trials(self, paper: str) -> Trials:
        """Return the paper's trials so far. Quick ones are the first of the others."""
        return Trials(self.out / "trials", paper)

    def note(self, text: str) -> None:
        """Tell the reader something between the progress bars."""
        _tell(text)


Script = Callable[[Setting], None]


def command(scripts: Mapping[str, Script], words: Sequence[str] | None = None) -> None:
    """Read the command line and run the scripts that it names, all where it names none.

    Args:
        scripts: by name, in the order in which they run.
        words: the command line, or None for that of the process.
    """
    options = _options(scripts).parse_args(words)
    chosen = options.only.split(",") if options.only else list(scripts)
    unknown = [name for name in chosen if name not in scripts]
    if unknown:
        sys.exit(f"There is no {unknown[0]!r}; there are {', '.join(scripts)}.")
    try:
        with _alone(options.out):
            setting = Setting(find(options.data, options.files, _tell), options.out, options.quick)
            for name in chosen:
                _tell(f"== {name}")
                scripts[name](setting)
    except SourceError as error:
        sys.exit(str(error))
    except OSError as error:
        sys.exit(f"{options.out} cannot be written, or a file not be read: {error}")
    except (KeyboardInterrupt, RuntimeError) as error:
        # DuckDB makes a RuntimeError of Ctrl-C.
        if isinstance(error, RuntimeError) and "interrupted" not in str(error):
            raise
        _tell(f"\nStopped. The same command continues: {options.out}/trials has what is done.")
        sys.exit(130)
    print(f"Tables and figures are in {options.out}.")


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Let no second run keep trials in the same folder."""
    folder = out / "trials"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"Another run is at work in {out}. Wait for it, or give another --out.")
        yield


def _tell(text: str) -> None:
    print(text, file=sys.stderr)


def _options(scripts: Mapping[str, Script]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m examples.papers",
        description="Reproduce the papers' tables and figures. Interrupt it when you like: the "
        "same command goes on where it was.",
        epilog="A file has the columns user_id and item, or item and count; a name that the papers "
        "know (docs/data.md lists them) is read as that set; any other is a set of its own.",
    )
    parser.add_argument("files", nargs="*", metavar="NAME=FILE", help="a data set of yours")
    parser.add_argument("--quick", action="store_true", help="few trials and points: two minutes")
    parser.add_argument("--data", type=Path, help="folder of data sets (default: DP_SQL_DATA)")
    parser.add_argument("--out", type=Path, default=_OUT, help=f"results (default: {_OUT})")
    parser.add_argument("--only", metavar="A,B", help=f"some of {', '.join(scripts)}")
    return parser
