"""Where everything is kept: the database, its sealed secrets, and the read model lists are served from."""
