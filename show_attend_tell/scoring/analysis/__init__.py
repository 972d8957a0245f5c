"""What scores alone do not show."""
