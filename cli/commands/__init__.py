"""The single commands: run, redraw, plan, demo, judge, export, doctor and prompts."""
