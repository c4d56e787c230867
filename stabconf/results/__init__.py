"""Labels on numbers: what a user holds after a fit."""
