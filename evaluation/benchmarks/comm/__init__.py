"""CoMM: manuals with images."""
