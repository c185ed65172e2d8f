"""Drive the machines by hand: a loop with a clock of its own, brokers by script. For tests of kohort itself."""
