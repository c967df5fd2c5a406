"""Random bits from the operating system. The only file that a release takes randomness from.

No seed, no switch and no buffer exists: forked processes share no bits.
"""

import secrets


def fair_bits(n: int) -> int:
    """Draw n >= 0 independent fair bits, as an integer in [0, 2**n)."""
    return secrets.randbits(n)


def fair_bytes(n: int) -> bytes:
    """Draw n >= 0 independent bytes of eight fair bits."""
    return secrets.token_bytes(n)
