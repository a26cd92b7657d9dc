"""The `feeEstimate` method: the cost of a transaction in a given token."""
