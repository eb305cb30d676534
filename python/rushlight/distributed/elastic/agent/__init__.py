"""What starts the workers of a machine and looks after them."""
