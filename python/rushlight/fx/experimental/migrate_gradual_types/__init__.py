"""Types of graphs by constraints, which nothing solves here."""
