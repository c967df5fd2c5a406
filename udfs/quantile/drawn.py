"""One row of each person, drawn at random from that person's own rows: the person's vote."""

import numpy as np
import numpy.typing as npt

from dp_sql.udfs.exact_sampling import Draws


def one_of_each(
    offsets: npt.NDArray[np.integer], rows: npt.NDArray[np.int64], draws: Draws
) -> npt.NDArray[np.int64]:
    """Draw one row of each person, each with equal probability.

    Privacy: what is drawn for one person does not depend on other people's rows.

    Args:
        offsets: where the rows of each person begin, and where the last ones end; each has some.
        rows: the values of all rows, person by person.
        draws: where the randomness comes from.
    """
    sizes = np.diff(offsets).astype(np.int64)
    return rows.take(offsets[:-1] + draws.each_below(sizes))
