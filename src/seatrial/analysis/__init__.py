"""From what was observed to figures: lifecycle tables, utilisation, a row per trial. Reads only the study directory."""
