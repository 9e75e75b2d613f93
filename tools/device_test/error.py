class Error(Exception):
    """What was wrong, where, and what would be right, in one or a few lines for the user."""
