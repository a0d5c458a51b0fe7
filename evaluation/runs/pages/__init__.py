"""Web page and table that compare scored folders."""
