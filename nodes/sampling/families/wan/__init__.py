"""Models of the WAN video class that edit single images."""
