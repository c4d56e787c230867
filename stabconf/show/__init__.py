"""Tables, figures and reports of intervals."""
