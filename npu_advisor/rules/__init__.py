"""Rules as data: the form of a rule file, and how files are found and read."""
