"""What commands and the console do at a cluster: describe, predict, peek, plan a reset."""
