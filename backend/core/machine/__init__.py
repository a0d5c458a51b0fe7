"""Properties of this machine: devices, libraries, plug-ins, environment."""
