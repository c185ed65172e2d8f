"""Fuzzing: what strangers, disks and users can hand to kohort, made up by chance and by what the code does with it."""
