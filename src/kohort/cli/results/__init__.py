"""What commands print as JSON, as structs: the schemas in docs/schemas are made of them."""
