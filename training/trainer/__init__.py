"""Parts that all training stages share: model loading, resuming, saving, reports."""
