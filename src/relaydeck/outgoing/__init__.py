"""Connections to servers that Relaydeck does not control: receivers of events, nodes and key systems."""
