"""The management API under `/admin/v1`. The commands of `relaydeck` use the same code."""
