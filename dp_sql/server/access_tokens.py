"""The tokens by which a server knows its analysts. `dp-sql token` adds, lists and removes them.

A token is 256 random bits, shown once. The file has only its SHA-256, which is enough: no one can
guess a token, so a slow hash would protect nothing.
"""

import hashlib
import hmac
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from dp_sql.budget.model import name_of
from dp_sql.errors import PolicyError
from dp_sql.files import open_private


@dataclass(frozen=True)
class TokenEntry:
    """What the file has of a token: who asks with it, its SHA-256, and when it was made (UTC)."""

    analyst: str
    digest: str
    added: str


def tokens_beside(policy: str) -> Path:
    """The file of the tokens that go with a policy by default."""
    if not Path(policy).name:
        raise PolicyError("A policy is a file: --policy policy.toml")
    return Path(policy).with_suffix(".tokens")


def read_tokens(path: Path) -> tuple[TokenEntry, ...]:
    """All tokens of a file, by name; none if there is no file."""
    try:
        with open(path, encoding="utf-8") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise PolicyError(f"Others may read or write {path}: chmod 600 {path}")
            entries = json.load(file)
        found = [
            TokenEntry(name_of(name) or "", one["sha256"], one["added"])
            for name, one in entries.items()
        ]
        for token in found:
            if not token.analyst or not all(isinstance(part, str) for part in vars(token).values()):
                raise TypeError
            if not token.digest.isascii():  # hmac could not compare it
                raise ValueError
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise PolicyError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        makes = "Move it away; `dp-sql token add` then makes a new one."
        raise PolicyError(f"{path} is not a file of tokens. {makes}") from None
    twice = [name for name, n in Counter(token.analyst for token in found).items() if n > 1]
    if twice:
        raise PolicyError(
            f"{twice[0]} has two tokens in {path}: names that differ only in leading or trailing "
            "spaces, or in how Unicode composes a letter, are the same. Remove one of them."
        )
    return tuple(sorted(found, key=lambda token: token.analyst))


def digest_of(secret: str) -> str:
    """What the file has of a token."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def owner_of(digest: str, tokens: Sequence[TokenEntry]) -> str | None:
    """The analyst whose token has this digest; None for a token that is not in the file."""
    found = [token for token in tokens if hmac.compare_digest(token.digest, digest)]
    return found[0].analyst if len(found) == 1 else None


def add_token(path: Path, analyst: str) -> str:
    """Make a token for an analyst who has none; returns it, for the only time."""
    name = _named(analyst)
    secret = os.urandom(32).hex()
    now = datetime.now(UTC).isoformat(timespec="seconds")
    with _changing(path) as tokens:
        if name in tokens:
            raise PolicyError(
                f"{name} has a token already. For a new one: dp-sql token remove, then add."
            )
        tokens[name] = TokenEntry(name, digest_of(secret), now)
    return secret


def _named(analyst: str) -> str:
    name = name_of(analyst)
    if name is None:
        raise PolicyError("An analyst's name cannot be empty or contain control characters.")
    return name


def remove_token(path: Path, analyst: str) -> None:
    """Forget the token of an analyst, who can ask no more with it."""
    name = _named(analyst)
    with _changing(path) as tokens:
        if tokens.pop(name, None) is None:
            raise PolicyError(f"{name} has no token in {path}.")


@contextmanager
def _changing(path: Path) -> Iterator[dict[str, TokenEntry]]:
    """The tokens of a file by name, to be changed; then it is replaced at once.

    The draft of the new file locks out other writers from the reading on. A link to the file stays.
    """
    path = Path(os.path.realpath(path))
    draft = path.with_name(path.name + ".new")
    try:
        handle = open_private(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        raise PolicyError(
            f"{draft} exists: someone is writing. Try again. If it stays, the writer was "
            "stopped: remove it."
        ) from None
    except OSError as error:
        raise PolicyError(f"{draft} cannot be written: {error.strerror}.") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            tokens = {token.analyst: token for token in read_tokens(path)}
            yield tokens
            entries = {n: {"sha256": t.digest, "added": t.added} for n, t in tokens.items()}
            json.dump(entries, file, indent=1, ensure_ascii=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
