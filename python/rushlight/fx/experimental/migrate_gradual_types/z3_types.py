"""Types of z3, which is not used."""

HAS_Z3 = False
