"""Which names of columns and tables speak of people, or identify something. Pure."""

import re

from dp_sql.sql.tokens import folded
from dp_sql.sql.types import INTEGERS

# The likeliest first: a table may have a customer_id and an employee_id.
PEOPLE = ("user", "customer", "cust", "person", "patient", "member", "client", "subscriber",
          "student", "pupil", "patron", "borrower", "participant", "respondent", "passenger",
          "rider", "visitor", "athlete", "player", "applicant", "seeker", "tenant", "citizen",
          "guest", "reviewer", "rater", "author", "household", "account", "profile", "employee",
          "emp", "staff", "teacher", "driver", "worker", "resident", "donor", "voter",
          "defendant", "plaintiff", "claimant", "policyholder", "cardholder", "learner",
          "device")  # fmt: skip
_ROLES = {"caller", "callee", "sender", "receiver", "recipient", "buyer", "seller", "payer",
          "payee", "guardian", "requester", "assignee", "actor"}  # fmt: skip
# Columns of tables of people, but not of companies or articles.
_OF_PEOPLE = {"born", "birthdate", "birthday", "birthyear", "dateofbirth", "dob", "yearofbirth",
              "sex", "gender", "firstname", "lastname", "surname", "nationality"}  # fmt: skip
_OF_ONE = {"iban", "ssn", "msisdn"}  # what a person, but no thing, has
_NEW_WORD = re.compile("(?<=[a-z])(?=[A-Z])")
IDS = ("id", "key", "no", "nr", "number", "uuid", "guid", "sk")


def word_rank(name: str, kind: str = "") -> int | None:
    """Which kind of people a column's name speaks of: user_id, c_custkey; None: of none.

    A whole number or a UUID may be called user alone.
    """
    plain = _plain(name)
    if plain == "uid":
        return 0
    ids = ("", *IDS) if _may_be_id(kind) else IDS
    whole = [n for n, word in enumerate(PEOPLE) for id_ in ids if plain == word + id_]
    prefix, underscore, rest = folded(name).partition("_")
    if not whole and underscore and len(prefix) <= 2:
        return word_rank(rest, kind)
    return whole[0] if whole else None


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", folded(name))


def _may_be_id(kind: str) -> bool:
    return kind in INTEGERS or kind == "UUID"


def speaks_of_people(name: str) -> bool:
    """Whether a column is named like a person's id: user_id, c_custkey."""
    return word_rank(name) is not None


def is_role(name: str, kind: str) -> bool:
    """Whether the last words are the id of a person or a role: sold_to_customer_no, caller_id.

    A whole number or a UUID may be called caller alone.
    """
    words = re.split(r"[\W_]", folded(_NEW_WORD.sub("_", name)))
    role = words[-2:-1] if words[-1] in IDS else words[-1:] if _may_be_id(kind) else []
    return bool(_ROLES.intersection(role)) or speaks_of_people("".join(words[-2:]))


def is_of_people(name: str) -> bool:
    """Whether a column is one that people have, and not companies or articles: first_name."""
    return _plain(name) in _OF_PEOPLE


def is_of_one(name: str) -> bool:
    """Whether a column is what a person has, but no thing: iban, SSN."""
    return _plain(name) in _OF_ONE


def stem_of(name: str) -> str:
    """What a column identifies, by its name: "order" for order_id and l_orderkey; "": nothing."""
    prefix, _, rest = folded(name).partition("_")
    short = rest if len(prefix) <= 2 else folded(name)
    end = next((end for end in ("id", "key") if short.endswith(end)), None)
    return short.removesuffix(end).rstrip("_") if end else ""
