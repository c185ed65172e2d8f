"""What is known of groups and brokers, as metrics by the names that dashboards expect."""
