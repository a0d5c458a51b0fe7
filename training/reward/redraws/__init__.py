"""Generation and scoring of images from refined prompts during training."""
