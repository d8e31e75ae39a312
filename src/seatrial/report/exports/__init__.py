"""A study in forms that other programs read: each module turns the study directory into one."""
