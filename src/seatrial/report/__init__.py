"""What people look at: the table on the terminal, pictures, progress. It reads only the study directory."""
