"""What every room uses: values, errors, texts, files, network, and the base classes of the models."""
