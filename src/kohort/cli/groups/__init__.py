"""Commands about all consumer groups, and functions that commands about one group share with them."""
