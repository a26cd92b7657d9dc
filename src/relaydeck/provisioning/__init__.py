"""Declared state: apply files and single documents that describe records, the plan to reach them, and the export."""
