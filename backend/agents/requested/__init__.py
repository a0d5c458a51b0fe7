"""What the text of a request asks for: a number of steps, images. The words are tables by language."""
