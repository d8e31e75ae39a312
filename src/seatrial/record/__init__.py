"""The files of a study: written while trials run, sealed at their end, read by everything after."""
