"""Steps whose images are generated outside of the loop, for example by other nodes of a ComfyUI graph.

Such a graph decides itself when it runs, so the loop cannot call a generator. Instead, the loop is run over
the journal with a placeholder generator that reports which image is needed next. So all rules (seeds,
prompts, acceptance, which attempt is kept, what is cached) are those of the loop, and a stopped run resumes
where its records end.
"""
