"""The console: web pages for operators, on the functions of `/admin/v1`."""
