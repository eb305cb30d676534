"""What of torch's additions to sympy is not symbolic: bounds of sizes. sympy is not needed."""
