"""The records of a run: what is stored of a call of a model, under which key, and in which file."""
