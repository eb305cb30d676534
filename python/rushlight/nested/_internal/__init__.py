"""What programs reach for below `nested`."""
