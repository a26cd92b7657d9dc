"""Our own management API under `/admin/v1`; the command line's verbs are the same code."""
