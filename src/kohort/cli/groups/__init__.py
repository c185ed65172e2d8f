"""Commands about all consumer groups, and what they share with those about one."""
