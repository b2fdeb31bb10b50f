"""Made campaigns, tables and traffic."""
