"""Edit rules, their matrix form, and the repair of records that violate them."""
