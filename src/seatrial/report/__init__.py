"""Output for people: terminal, pictures, page, progress. It reads only the study directory."""
