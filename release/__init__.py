"""Builds what a release publishes: packages, image, bill of materials, checksums and notes. It publishes nothing."""
