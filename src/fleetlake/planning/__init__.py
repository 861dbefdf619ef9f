"""What is proven, what is still to be read, and by whom. Pure."""
