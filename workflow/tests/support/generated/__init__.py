"""Generated campaigns, tables and traffic."""
