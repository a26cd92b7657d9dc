"""One worker process: its parts, from the store to the pipeline, and what it does beside requests."""
