"""Storage: the database, its sealed secrets, the audit log, and the read model that lists are served from."""
