"""What edits change although nothing was meant to change: measured, and put back."""
