"""The pool on one machine: a child process per device."""
