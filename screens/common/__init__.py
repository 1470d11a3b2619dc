"""What every app and every screen has."""
