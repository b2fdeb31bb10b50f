"""Plans samples and the resources they need. Nothing here takes a sample."""
