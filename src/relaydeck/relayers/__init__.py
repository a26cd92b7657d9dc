"""What a relayer is: an address on a network, its policies and its three state indicators."""
