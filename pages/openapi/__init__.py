"""The OpenAPI documents of both interfaces, which the service has as files."""
