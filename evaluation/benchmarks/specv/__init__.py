"""SpecV: interleaved stories with checklists."""
