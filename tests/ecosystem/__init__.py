"""The test suites of libraries that stand on torch, run with torch and with rushlight."""
