"""All trials of one command, in one directory: from a description of each to a study that can be read years later."""
