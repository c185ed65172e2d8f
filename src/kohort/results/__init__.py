"""What commands and the console tell, as structs: the schemas in docs/schemas are made of them."""
