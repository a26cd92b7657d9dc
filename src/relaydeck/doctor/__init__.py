"""The checks of `relaydeck doctor`: what is wrong with a home, its database, nodes and signers, and what to do."""
