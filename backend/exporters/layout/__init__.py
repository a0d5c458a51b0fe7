"""Layout of exports: pages, sheets, comics, animations and their text."""
