"""Commands about all consumer groups. They share functions with the commands about one group."""
