"""The OpenAPI documents of both interfaces and their web pages, which the service has as files."""
