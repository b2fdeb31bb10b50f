"""The stages of a campaign, from its catalog to its tables."""
