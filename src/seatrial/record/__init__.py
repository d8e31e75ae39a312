"""What is written to disk while a trial runs, and how it is read back."""
