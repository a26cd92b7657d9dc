"""What several packages of the tests use: real servers, homes, nodes, receivers, and the tiers."""
