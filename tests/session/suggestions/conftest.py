"""The shop with ratings: as a database with a policy, and in an owner's session."""

from tests.databases import fixtures_of
from tests.session.suggestions.ratings_shop import POLICY, TABLES

shop, owner = fixtures_of(TABLES, POLICY)
