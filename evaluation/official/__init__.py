"""Official evaluators run as they are, in child processes, with a judge of one's own choice."""
