"""The console: a page that shows groups live, and what happened to them."""
