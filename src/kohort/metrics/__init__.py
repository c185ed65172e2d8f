"""What is known of groups, and of a broker, as families of Prometheus; and the page that shows them."""
