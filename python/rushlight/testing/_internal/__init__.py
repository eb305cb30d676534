"""Import paths of torch's own tests that libraries' tests use."""
