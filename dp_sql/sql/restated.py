"""Corrected statements of which it is known whether they ask the same question."""


class Restated(str):
    """A statement in other words: a CAST as TRY_CAST, make_date(2024, 1, 31) as its literal."""

    __slots__ = ()


class Narrowed(str):
    """A statement that leaves out a part of what was asked."""

    __slots__ = ()


class OtherQuestion(str):
    """A statement that asks something else, and perhaps what was meant: GROUP BY 1 for BY name."""

    __slots__ = ()
