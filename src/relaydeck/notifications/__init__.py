"""What a notification is: a webhook with an optional signing key."""
