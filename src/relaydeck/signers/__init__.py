"""What a signer is: a key, or a reference to one, in one of seven shapes."""
