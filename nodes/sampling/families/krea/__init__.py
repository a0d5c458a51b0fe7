"""Krea 2 and its edit LoRAs."""
