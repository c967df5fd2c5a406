"""`python -m dp_sql` is the command `dp-sql`."""

import sys

from dp_sql.cli.main import main

sys.exit(main())
