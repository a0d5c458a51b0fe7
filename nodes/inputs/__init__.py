"""Inputs, sockets and checks shared by the nodes."""
