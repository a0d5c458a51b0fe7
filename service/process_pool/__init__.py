"""The pool on one machine: a child process for each device."""
