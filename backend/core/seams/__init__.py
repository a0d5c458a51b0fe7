"""Base classes of the models: chat model, generator, scorer."""
