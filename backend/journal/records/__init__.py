"""The records of a run: what is stored of a plan, a generator call and a judgement, and under which key."""
