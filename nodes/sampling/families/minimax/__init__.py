"""Still-image models of the MiniMax H3 family."""
