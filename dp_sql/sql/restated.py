"""A corrected statement that asks the same by construction, so that no one need compare the two."""


class Restated(str):
    """A statement in other words: a CAST as TRY_CAST, make_date(2024, 1, 31) as its literal."""

    __slots__ = ()
