"""A user's table and formula, made plain arrays and labels. patsy stays in this room."""
