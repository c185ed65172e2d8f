"""The console: a web page that shows consumer groups live, and their past rebalances."""
