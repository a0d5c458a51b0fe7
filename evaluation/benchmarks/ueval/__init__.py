"""UEval: answers of text and images with rubrics."""
