"""Numbers printed in papers, next to those of a campaign."""
