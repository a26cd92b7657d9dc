"""What a notification is: a webhook with an optional signing key; and the events that it is told."""
