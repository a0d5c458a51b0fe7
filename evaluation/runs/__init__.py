"""A benchmark run: carried out, collected for a judge, scored, compared, shown as pages."""
