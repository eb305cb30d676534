"""Small functions of elastic runs."""
